// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/transpose.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/op_list.hpp"
#include "ops/transpose/problem/transpose_problem.hpp"

namespace tilewright {
namespace {

struct TransposePreparation {
  TransposeProblem problem;
  TransposePointers pointers{};
  OpenDevice* on = nullptr;
};
Status begin_transpose(Context& context, const TransposeCall& call, bool addresses, TransposePreparation& to) {
  if (Status s = make_transpose_problem(call, addresses, to.problem, to.pointers); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device("transpose", call.x.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status transpose(Context& context, const TransposeCall& call, const Exec& exec) {
  TransposePreparation made;
  if (Status s = begin_transpose(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl().run(transpose_operator(), erase(made.problem), {made.pointers, {}}, exec, call.recipe, made.on);
}

Status transpose_prepare(Context& context, const TransposeCall& call, const Exec& exec) {
  TransposePreparation made;
  if (Status s = begin_transpose(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl()
      .plan(transpose_operator(), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}

Result<QueryResult> transpose_query(Context& context, const TransposeCall& call, const Exec& exec) {
  TransposePreparation made;
  if (Status s = begin_transpose(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(transpose_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

Result<std::string> transpose_explain(Context& context, const TransposeCall& call, const Exec& exec) {
  TransposePreparation made;
  if (Status s = begin_transpose(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(transpose_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace tilewright
