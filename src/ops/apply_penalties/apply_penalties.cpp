// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/apply_penalties.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/apply_penalties/problem/apply_penalties_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

struct ApplyPenaltiesPreparation {
  ApplyPenaltiesProblem problem;
  ApplyPenaltiesPointers pointers{};
  OpenDevice* on = nullptr;
};
Status begin_apply_penalties(Context& context, const ApplyPenaltiesCall& call, bool addresses,
                             ApplyPenaltiesPreparation& to) {
  if (Status s = make_apply_penalties_problem(call, addresses, to.problem, to.pointers); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device("apply_penalties", call.logits.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status apply_penalties(Context& context, const ApplyPenaltiesCall& call, const Exec& exec) {
  ApplyPenaltiesPreparation made;
  if (Status s = begin_apply_penalties(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.rows == 0 || made.problem.n == 0) return {};
  return context.impl().run(apply_penalties_operator(), erase(made.problem), {made.pointers, {}}, exec, call.recipe,
                            made.on);
}

Status apply_penalties_prepare(Context& context, const ApplyPenaltiesCall& call, const Exec& exec) {
  ApplyPenaltiesPreparation made;
  if (Status s = begin_apply_penalties(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.rows == 0 || made.problem.n == 0) return {};
  return context.impl()
      .plan(apply_penalties_operator(), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}

Result<QueryResult> apply_penalties_query(Context& context, const ApplyPenaltiesCall& call, const Exec& exec) {
  ApplyPenaltiesPreparation made;
  if (Status s = begin_apply_penalties(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(apply_penalties_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

Result<std::string> apply_penalties_explain(Context& context, const ApplyPenaltiesCall& call, const Exec& exec) {
  ApplyPenaltiesPreparation made;
  if (Status s = begin_apply_penalties(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(apply_penalties_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace tilewright
