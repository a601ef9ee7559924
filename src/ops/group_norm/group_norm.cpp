// SPDX-License-Identifier: MIT
// The public functions of group_norm and its gradient: a call becomes a problem, the context does the rest.
#include "tilewright/group_norm.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/group_norm/problem/group_norm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

const Operator& operator_of(const GroupNormCall&) { return group_norm_operator(); }
const Operator& operator_of(const GroupNormBackwardCall&) { return group_norm_backward_operator(); }

GroupNormTensors group_norm_tensors(const GroupNormCall& c) {
  return {.x = c.x,
          .out = c.out,
          .weight = c.weight,
          .bias = c.bias,
          .groups = c.groups,
          .eps = c.eps,
          .activation = c.activation};
}
GroupNormTensors group_norm_tensors(const GroupNormBackwardCall& c) {
  return {.x = c.x,
          .out = c.dx,
          .weight = c.weight,
          .bias = c.bias,
          .dy = c.dy,
          .dweight = c.dweight,
          .dbias = c.dbias,
          .groups = c.groups,
          .eps = c.eps,
          .activation = c.activation,
          .backward = true};
}

struct GroupNormPreparation {
  GroupNormProblem problem;
  GroupNormBindings bindings{};
  OpenDevice* on = nullptr;
};
template <class Call>
Status begin_group_norm(Context& context, const Call& call, bool addresses, GroupNormPreparation& to) {
  if (Status s = make_group_norm_problem(group_norm_tensors(call), addresses, to.problem, to.bindings); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device(to.problem.op(), call.x.device);
  if (on) to.on = *on;
  return on.status();
}

template <class Call>
Status run_group_norm(Context& context, const Call& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.empty()) return {};
  const CallBindings bindings{made.bindings.pointers, made.bindings.scalars, nullptr};
  return context.impl().run(operator_of(call), erase(made.problem), bindings, exec, call.recipe, made.on);
}
template <class Call>
Status prepare_group_norm(Context& context, const Call& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl()
      .plan(operator_of(call), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}
template <class Call>
Result<QueryResult> query_group_norm(Context& context, const Call& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(operator_of(call), erase(made.problem), exec.units, call.recipe, made.on);
}
template <class Call>
Result<std::string> explain_group_norm(Context& context, const Call& call, const Exec& exec) {
  GroupNormPreparation made;
  if (Status s = begin_group_norm(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(operator_of(call), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace

Status group_norm(Context& context, const GroupNormCall& call, const Exec& exec) {
  return run_group_norm(context, call, exec);
}
Status group_norm_prepare(Context& context, const GroupNormCall& call, const Exec& exec) {
  return prepare_group_norm(context, call, exec);
}
Result<QueryResult> group_norm_query(Context& context, const GroupNormCall& call, const Exec& exec) {
  return query_group_norm(context, call, exec);
}
Result<std::string> group_norm_explain(Context& context, const GroupNormCall& call, const Exec& exec) {
  return explain_group_norm(context, call, exec);
}

Status group_norm_backward(Context& context, const GroupNormBackwardCall& call, const Exec& exec) {
  return run_group_norm(context, call, exec);
}
Status group_norm_backward_prepare(Context& context, const GroupNormBackwardCall& call, const Exec& exec) {
  return prepare_group_norm(context, call, exec);
}
Result<QueryResult> group_norm_backward_query(Context& context, const GroupNormBackwardCall& call, const Exec& exec) {
  return query_group_norm(context, call, exec);
}
Result<std::string> group_norm_backward_explain(Context& context, const GroupNormBackwardCall& call, const Exec& exec) {
  return explain_group_norm(context, call, exec);
}

}  // namespace tilewright
