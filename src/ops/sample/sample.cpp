// SPDX-License-Identifier: MIT
// The public functions: a call becomes a problem, the context does the rest.
#include "tilewright/sample.hpp"

#include "dispatch/context_impl.hpp"
#include "ops/op_list.hpp"
#include "ops/sample/problem/sample_problem.hpp"

namespace tilewright {
namespace {

struct SamplePreparation {
  SampleProblem problem;
  SamplePointers pointers{};
  OpenDevice* on = nullptr;
};
Status begin_sample(Context& context, const SampleCall& call, bool addresses, SamplePreparation& to) {
  if (Status s = make_sample_problem(call, addresses, to.problem, to.pointers); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device("sample", call.logits.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status sample(Context& context, const SampleCall& call, const Exec& exec) {
  SamplePreparation made;
  if (Status s = begin_sample(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.rows == 0) return {};
  return context.impl().run(sample_operator(), erase(made.problem), {made.pointers, {}}, exec, call.recipe, made.on);
}

Status sample_prepare(Context& context, const SampleCall& call, const Exec& exec) {
  SamplePreparation made;
  if (Status s = begin_sample(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.rows == 0) return {};
  return context.impl()
      .plan(sample_operator(), erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true,
            /*on_new_problem=*/nullptr, made.on)
      .status();
}

Result<QueryResult> sample_query(Context& context, const SampleCall& call, const Exec& exec) {
  SamplePreparation made;
  if (Status s = begin_sample(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(sample_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

Result<std::string> sample_explain(Context& context, const SampleCall& call, const Exec& exec) {
  SamplePreparation made;
  if (Status s = begin_sample(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(sample_operator(), erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace tilewright
