// SPDX-License-Identifier: MIT
// What dispatch, tools and tuner need to know of an operator that writes to a paged cache, and the public functions' common part.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "ops/kv_cache/families/cache_families.hpp"
#include "ops/kv_cache/problem/cache_problem.hpp"

namespace tilewright {

class CacheOperator final : public Operator {
 public:
  explicit CacheOperator(const CacheOp& op);

  std::string_view name() const override { return op_.name; }
  std::span<const KernelFamily* const> families() const override { return families_; }
  ProblemSignature signature(ProblemRef ref) const override { return cache_signature(problem_cast<CacheProblem>(ref)); }
  std::string problem_text(ProblemRef ref) const override {
    return print_cache_problem(problem_cast<CacheProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override;
  double operations(ProblemRef ref) const override;
  double bytes_moved(ProblemRef ref) const override { return cache_bytes_moved(problem_cast<CacheProblem>(ref)); }
  bool programmatic_edge(ProblemRef ref) const override {
    return problem_cast<CacheProblem>(ref).programmatic_edge != 0;
  }
  std::string dtype_text(ProblemRef ref) const override;
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override;
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override;

 private:
  const CacheOp& op_;
  std::vector<std::unique_ptr<KernelFamily>> owned_;
  std::vector<const KernelFamily*> families_;
};

// The public functions of an operator.
struct CacheFunctions {
  const CacheOp& cache;
  const Operator& op;

  Status run(Context& context, const CacheCall& call, const std::string& recipe, const Exec& exec) const;
  Status prepare(Context& context, const CacheCall& call, const std::string& recipe, const Exec& exec) const;
  Result<QueryResult> query(Context& context, const CacheCall& call, const std::string& recipe, const Exec& exec) const;
  Result<std::string> explain(Context& context, const CacheCall& call, const std::string& recipe,
                              const Exec& exec) const;
};

}  // namespace tilewright
