// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/group_norm.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/op_list.hpp"
#include "ops/group_norm/problem/group_norm_problem.hpp"

namespace tilewright {
namespace {

struct GroupNormPreparation {
  GroupNormProblem problem;
  GroupNormBindings bindings{};
  OpenDevice* on = nullptr;
};
Status begin_group_norm(Context& context, const GroupNormCall& call, bool addresses, GroupNormPreparation& to) {
  if (Status s = make_group_norm_problem(call, addresses, to.problem, to.bindings); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device("group_norm", call.x.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status group_norm(Context& context, const GroupNormCall& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.empty()) return {};
  const CallBindings bindings{made.bindings.pointers, made.bindings.scalars, nullptr};
  return context.impl().run(group_norm_operator(), erase(made.problem), bindings, exec, call.recipe, made.on);
}

Status group_norm_prepare(Context& context, const GroupNormCall& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl()
      .plan(group_norm_operator(), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}

Result<QueryResult> group_norm_query(Context& context, const GroupNormCall& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(group_norm_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

Result<std::string> group_norm_explain(Context& context, const GroupNormCall& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(group_norm_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace tilewright
