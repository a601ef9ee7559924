// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/grouped_gemm.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

// What of the way a call runs the choice depends on: part of the problem.
void add_edge(const GroupedGemmCall& call, const Exec& exec, GroupedGemmProblem& problem) {
  problem.gemm.programmatic_edge = has_programmatic_edge(exec, call.gemm.d.device);
}

// A call without addresses, for everything but running.
Result<OpenDevice*> prepare_call(Context& context, const GroupedGemmCall& call, const Exec& exec,
                                 GroupedGemmProblem& problem) {
  GroupedGemmBindings bindings;
  if (Status s = make_grouped_gemm_problem(call, /*check_addresses=*/false, problem, bindings); !s) return s;
  add_edge(call, exec, problem);
  return context.impl().open_device("grouped_gemm", call.gemm.d.device);
}

}  // namespace

Status grouped_gemm(Context& context, const GroupedGemmCall& call, const Exec& exec) {
  GroupedGemmProblem problem;
  GroupedGemmBindings bindings;
  if (Status s = read_grouped_gemm_call(call, /*check_addresses=*/true, problem, bindings); !s) return s;
  add_edge(call, exec, problem);
  ContextImpl& impl = context.impl();
  const Result<OpenDevice*> on = impl.open_device("grouped_gemm", call.gemm.d.device);
  if (!on) return on.status();
  const Operator& op = grouped_gemm_operator();
  const CallBindings bound{bindings.pointers, bindings.scalars};
  // A problem with a plan was validated when that was made; addresses are new with every call.
  if (const RecentPlans::Pin plan = impl.known_plan(op, erase(problem), exec.units, call.gemm.options.recipe, *on)) {
    if (Status s = check_grouped_gemm_addresses(problem, bindings); !s) return s;
    return impl.run_known(op, erase(problem), *plan, bound, exec, *on);
  }
  if (Status s = validate_grouped_gemm_problem(problem); !s) return s;
  if (problem.empty() || problem.d_rows == 0) return {};
  if (Status s = check_grouped_gemm_addresses(problem, bindings); !s) return s;
  return impl.run(op, erase(problem), bound, exec, call.gemm.options.recipe, *on);
}

Status grouped_gemm_prepare(Context& context, const GroupedGemmCall& call, const Exec& exec) {
  GroupedGemmProblem problem;
  const Result<OpenDevice*> on = prepare_call(context, call, exec, problem);
  if (!on) return on.status();
  if (problem.empty() || problem.d_rows == 0) return {};
  Result<std::shared_ptr<const Plan>> plan =
      context.impl().plan(grouped_gemm_operator(), erase(problem), exec.units, call.gemm.options.recipe,
                          /*allow_compile=*/true, /*on_new_problem=*/nullptr, *on);
  return plan ? Status() : plan.status();
}

Result<QueryResult> grouped_gemm_query(Context& context, const GroupedGemmCall& call, const Exec& exec) {
  GroupedGemmProblem problem;
  const Result<OpenDevice*> on = prepare_call(context, call, exec, problem);
  if (!on) return on.status();
  return context.impl().query(grouped_gemm_operator(), erase(problem), exec.units, call.gemm.options.recipe, *on);
}

Result<std::string> grouped_gemm_explain(Context& context, const GroupedGemmCall& call, const Exec& exec) {
  GroupedGemmProblem problem;
  const Result<OpenDevice*> on = prepare_call(context, call, exec, problem);
  if (!on) return on.status();
  return context.impl().explain(grouped_gemm_operator(), erase(problem), exec.units, call.gemm.options.recipe, *on);
}

}  // namespace tilewright
