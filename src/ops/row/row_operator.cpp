// SPDX-License-Identifier: MIT
#include "ops/row/row_operator.hpp"

#include <algorithm>

#include "ops/row/instance/row_instance.hpp"
#include "ops/row/problem/row_rotation.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> row_problem_bytes(const RowProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

}  // namespace

RowOperator::RowOperator(const RowOp& op) : op_(op) {
  owned_.push_back(make_row_cpu_family(op));
  owned_.push_back(make_row_gpu_family(op));
  owned_.push_back(make_row_generic_family(op));
  owned_.push_back(make_row_generic_gpu_family(op));
  for (const auto& family : owned_) families_.push_back(family.get());
}

Result<std::vector<std::byte>> RowOperator::parse_problem(std::string_view text) const {
  const Result<RowProblem> problem = parse_row_problem(op_, text);
  if (!problem) return problem.status();
  return row_problem_bytes(*problem);
}

// A square and its sum, two products, and what columns and scales add.
double RowOperator::operations(ProblemRef ref) const {
  const auto& p = problem_cast<RowProblem>(ref);
  return static_cast<double>(p.rows()) * static_cast<double>(p.n) * (p.quant == Quantisation::kNone ? 4 : 6);
}

std::string RowOperator::dtype_text(ProblemRef ref) const {
  const auto& p = problem_cast<RowProblem>(ref);
  const std::string x = dtype_name(p.x.dtype);
  return p.out.dtype == p.x.dtype ? x : x + ">" + dtype_name(p.out.dtype);
}

Result<std::unique_ptr<ProblemInstance>> RowOperator::instantiate(ProblemRef ref, Device& device,
                                                                  const InstanceOptions& options) const {
  return make_row_instance(op_, problem_cast<RowProblem>(ref), device, options);
}

// Rows shorter than a vector, one off its multiples, one off a group, longer than a block keeps in registers.
std::vector<std::vector<std::byte>> RowOperator::tail_problems(ProblemRef ref) const {
  std::vector<std::vector<std::byte>> tails;
  for (const auto& [m, n] : {std::pair{1, 1}, {3, 7}, {2, 17}, {5, 127}, {3, 129}, {7, 1000}, {2, 16392}}) {
    RowProblem p = problem_cast<RowProblem>(ref);
    p.size = {1, 1, m}, p.n = n;
    if (p.hadamard != 0) p.n = (n + p.hadamard - 1) / p.hadamard * p.hadamard;
    if (p.rotates()) fit_rotation(p);
    set_contiguous(p);
    tails.push_back(row_problem_bytes(p));
  }
  return tails;
}

namespace {

struct RowPreparation {
  RowProblem problem;
  RowBindings bindings;
  OpenDevice* on = nullptr;
};
Status begin_row_call(const RowOp& row, Context& context, const RowCall& call, bool addresses, const Exec& exec,
                      RowPreparation& to) {
  if (Status s = make_row_problem(row, call, addresses, to.problem, to.bindings); !s) return s;
  to.problem.programmatic_edge = has_programmatic_edge(exec, call.x.device);
  const Result<OpenDevice*> on = context.impl().open_device(row.name, call.x.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status RowFunctions::run(Context& context, const RowCall& call, const std::string& recipe, const Exec& exec) const {
  RowPreparation made;
  if (Status s = begin_row_call(row, context, call, /*addresses=*/true, exec, made); !s) return s;
  const bool empty = made.problem.rows() == 0 || made.problem.n == 0;
  const bool scales = made.problem.finds_of_tensor() || (made.problem.has_row_scales() && made.problem.rows() > 0);
  const bool sums = made.problem.column_sums() > 0 && made.problem.n > 0;
  if (empty && !scales && !sums) return {};
  return context.impl().run(op, erase(made.problem), {made.bindings.pointers, made.bindings.scalars}, exec, recipe,
                            made.on);
}

Status RowFunctions::prepare(Context& context, const RowCall& call, const std::string& recipe, const Exec& exec) const {
  RowPreparation made;
  if (Status s = begin_row_call(row, context, call, /*addresses=*/false, exec, made); !s) return s;
  const bool of_none = made.problem.finds_of_tensor() || made.problem.column_sums() > 0;
  if (made.problem.rows() == 0 && !of_none) return {};
  const Result<std::shared_ptr<const Plan>> plan =
      context.impl().plan(op, erase(made.problem), exec.units, recipe, /*allow_compile=*/true,
                          /*on_new_problem=*/nullptr, made.on);
  return plan.status();
}

Result<QueryResult> RowFunctions::query(Context& context, const RowCall& call, const std::string& recipe,
                                        const Exec& exec) const {
  RowPreparation made;
  if (Status s = begin_row_call(row, context, call, /*addresses=*/false, exec, made); !s) return s;
  return context.impl().query(op, erase(made.problem), exec.units, recipe, made.on);
}

Result<std::string> RowFunctions::explain(Context& context, const RowCall& call, const std::string& recipe,
                                          const Exec& exec) const {
  RowPreparation made;
  if (Status s = begin_row_call(row, context, call, /*addresses=*/false, exec, made); !s) return s;
  return context.impl().explain(op, erase(made.problem), exec.units, recipe, made.on);
}

}  // namespace tilewright
