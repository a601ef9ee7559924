// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/gemm.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/gemm/problem/gemm_aliasing.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

// What of the way a call runs the choice depends on: part of the problem.
void add_exec(const GemmCall& call, const Exec& exec, GemmProblem& problem) {
  problem.programmatic_edge = has_programmatic_edge(exec, call.d.device);
}

}  // namespace

Status gemm(Context& context, const GemmCall& call, const Exec& exec) {
  GemmProblem problem;
  GemmBindings bindings;
  if (Status s = read_gemm_call(call, /*check_addresses=*/true, problem, bindings); !s) return s;
  add_exec(call, exec, problem);
  ContextImpl& impl = context.impl();
  const Result<OpenDevice*> on = impl.open_device("gemm", call.d.device);
  if (!on) return on.status();
  const Operator& op = gemm_operator();
  const CallBindings bound{bindings.pointers, bindings.scalars};
  // A problem with a plan was validated when that was made; addresses are new with every call.
  if (const RecentPlans::Pin plan = impl.known_plan(op, erase(problem), exec.units, call.options.recipe, *on)) {
    if (Status s = check_gemm_addresses(problem, bindings); !s) return s;
    return impl.run_known(op, erase(problem), *plan, bound, exec, *on);
  }
  if (Status s = validate_gemm_problem(problem); !s) return s;
  if (problem.m == 0 || problem.n == 0 || problem.batch == 0) return {};
  if (Status s = check_gemm_addresses(problem, bindings); !s) return s;
  return impl.run(op, erase(problem), bound, exec, call.options.recipe, *on);
}

Status gemm_prepare(Context& context, const GemmCall& call, const Exec& exec) {
  GemmProblem problem;
  GemmBindings bindings;
  if (Status s = make_gemm_problem(call, /*check_addresses=*/false, problem, bindings); !s) return s;
  add_exec(call, exec, problem);
  const Result<OpenDevice*> on = context.impl().open_device("gemm", call.d.device);
  if (!on) return on.status();
  if (problem.m == 0 || problem.n == 0 || problem.batch == 0) return {};
  Result<std::shared_ptr<const Plan>> plan =
      context.impl().plan(gemm_operator(), erase(problem), exec.units, call.options.recipe, /*allow_compile=*/true,
                          /*on_new_problem=*/nullptr, *on);
  return plan ? Status() : plan.status();
}

Result<QueryResult> gemm_query(Context& context, const GemmCall& call, const Exec& exec) {
  GemmProblem problem;
  GemmBindings bindings;
  if (Status s = make_gemm_problem(call, /*check_addresses=*/false, problem, bindings); !s) return s;
  add_exec(call, exec, problem);
  const Result<OpenDevice*> on = context.impl().open_device("gemm", call.d.device);
  if (!on) return on.status();
  return context.impl().query(gemm_operator(), erase(problem), exec.units, call.options.recipe, *on);
}

Result<std::string> gemm_explain(Context& context, const GemmCall& call, const Exec& exec) {
  GemmProblem problem;
  GemmBindings bindings;
  if (Status s = make_gemm_problem(call, /*check_addresses=*/false, problem, bindings); !s) return s;
  add_exec(call, exec, problem);
  const Result<OpenDevice*> on = context.impl().open_device("gemm", call.d.device);
  if (!on) return on.status();
  return context.impl().explain(gemm_operator(), erase(problem), exec.units, call.options.recipe, *on);
}

}  // namespace tilewright
