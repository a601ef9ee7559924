// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/top_k.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/op_list.hpp"
#include "ops/top_k/problem/top_k_problem.hpp"

namespace tilewright {
namespace {

struct TopKPreparation {
  TopKProblem problem;
  TopKPointers pointers{};
  OpenDevice* on = nullptr;
};
Status begin_top_k(Context& context, const TopKCall& call, bool addresses, TopKPreparation& to) {
  if (Status s = make_top_k_problem(call, addresses, to.problem, to.pointers); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device("top_k", call.x.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status top_k(Context& context, const TopKCall& call, const Exec& exec) {
  TopKPreparation made;
  if (Status s = begin_top_k(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.rows == 0) return {};
  return context.impl().run(top_k_operator(), erase(made.problem), {made.pointers, {}}, exec, call.recipe, made.on);
}

Status top_k_prepare(Context& context, const TopKCall& call, const Exec& exec) {
  TopKPreparation made;
  if (Status s = begin_top_k(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.rows == 0) return {};
  return context.impl()
      .plan(top_k_operator(), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}

Result<QueryResult> top_k_query(Context& context, const TopKCall& call, const Exec& exec) {
  TopKPreparation made;
  if (Status s = begin_top_k(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(top_k_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

Result<std::string> top_k_explain(Context& context, const TopKCall& call, const Exec& exec) {
  TopKPreparation made;
  if (Status s = begin_top_k(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(top_k_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace tilewright
