// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of a row operator, and the public functions' common part: all of it follows from
// the RowOp.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "ops/row/families/row_families.hpp"
#include "ops/row/problem/row_problem.hpp"

namespace tilewright {

class RowOperator final : public Operator {
 public:
  explicit RowOperator(const RowOp& op);

  std::string_view name() const override { return op_.name; }
  std::span<const KernelFamily* const> families() const override { return families_; }
  ProblemSignature signature(ProblemRef ref) const override { return row_signature(problem_cast<RowProblem>(ref)); }
  std::string problem_text(ProblemRef ref) const override { return print_row_problem(problem_cast<RowProblem>(ref)); }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override;
  double operations(ProblemRef ref) const override;
  double bytes_moved(ProblemRef ref) const override { return row_bytes_moved(problem_cast<RowProblem>(ref)); }
  bool programmatic_edge(ProblemRef ref) const override { return problem_cast<RowProblem>(ref).programmatic_edge != 0; }
  std::string dtype_text(ProblemRef ref) const override;
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override;
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override;

 private:
  const RowOp& op_;
  std::vector<std::unique_ptr<KernelFamily>> owned_;
  std::vector<const KernelFamily*> families_;
};

// The public functions of an operator.
struct RowFunctions {
  const RowOp& row;
  const Operator& op;

  Status run(Context& context, const RowCall& call, const std::string& recipe, const Exec& exec) const;
  Status prepare(Context& context, const RowCall& call, const std::string& recipe, const Exec& exec) const;
  Result<QueryResult> query(Context& context, const RowCall& call, const std::string& recipe, const Exec& exec) const;
  Result<std::string> explain(Context& context, const RowCall& call, const std::string& recipe, const Exec& exec) const;
};

}  // namespace tilewright
