// SPDX-License-Identifier: MIT
// softmax: y = exp(scale x - max) / sum of these along rows, or the logarithm of that.
//
// Shapes: x and out [..., N]. Rows have their elements next to each other, outer dimensions any strides that leave at most three
// apart. Dtypes: x and out f32, f16, bf16, each its own. Arithmetic: f32.
// Sizes: N is exact, the number of rows bucketed. Size 0 is legal.
// Aliasing: out may be x of the same dtype; else it may overlap nothing.
// docs/softmax.md has the contract.
#pragma once

#include <string>

#include "tilewright/context.hpp"

namespace tilewright {

struct SoftmaxCall {
  TensorView x, out;
  float scale = 1;     // a factor of x: 1 / temperature
  bool log = false;    // scale x - max - log(sum of exponentials)
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status softmax(Context& context, const SoftmaxCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status softmax_prepare(Context& context, const SoftmaxCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> softmax_query(Context& context, const SoftmaxCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> softmax_explain(Context& context, const SoftmaxCall& call, const Exec& exec = {});

}  // namespace tilewright
