// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/moe_routing.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/moe_routing/problem/moe_routing_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

struct RoutingPreparation {
  MoeRoutingProblem problem;
  MoeRoutingBindings bindings;
  OpenDevice* on = nullptr;
};
Status begin_routing(Context& context, const MoeRoutingCall& call, bool addresses, const Exec& exec,
                     RoutingPreparation& to) {
  if (Status s = make_moe_routing_problem(call, addresses, to.problem, to.bindings); !s) return s;
  to.problem.programmatic_edge = has_programmatic_edge(exec, call.logits.device);
  const Result<OpenDevice*> on = context.impl().open_device("moe_routing", call.logits.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status moe_routing(Context& context, const MoeRoutingCall& call, const Exec& exec) {
  RoutingPreparation made;
  if (Status s = begin_routing(context, call, /*addresses=*/true, exec, made); !s) return s;
  if (made.problem.tokens == 0) return {};
  return context.impl().run(moe_routing_operator(), erase(made.problem),
                            {made.bindings.pointers, made.bindings.scalars}, exec, call.recipe, made.on);
}

Status moe_routing_prepare(Context& context, const MoeRoutingCall& call, const Exec& exec) {
  RoutingPreparation made;
  if (Status s = begin_routing(context, call, /*addresses=*/false, exec, made); !s) return s;
  if (made.problem.tokens == 0) return {};
  return context.impl()
      .plan(moe_routing_operator(), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}

Result<QueryResult> moe_routing_query(Context& context, const MoeRoutingCall& call, const Exec& exec) {
  RoutingPreparation made;
  if (Status s = begin_routing(context, call, /*addresses=*/false, exec, made); !s) return s;
  return context.impl().query(moe_routing_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

Result<std::string> moe_routing_explain(Context& context, const MoeRoutingCall& call, const Exec& exec) {
  RoutingPreparation made;
  if (Status s = begin_routing(context, call, /*addresses=*/false, exec, made); !s) return s;
  return context.impl().explain(moe_routing_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace tilewright
