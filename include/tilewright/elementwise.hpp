// SPDX-License-Identifier: MIT
// elementwise: out = x, x + b or x * b, in f32 and rounded once to out's dtype, which casts.
//
// Shapes: x, out [..., N]; b [..., N] or [..., 1]: its sizes are x's or 1, which is broadcast, and dimensions that it lacks in front are
// 1. Rows have their elements next to each other, outer dimensions any strides that leave at most three apart. Dtypes: x and b f32, f16,
// bf16, each its own; out these or e4m3, e5m2 (OCP and FNUZ), i8: what is beyond them becomes their largest.
// Sizes: N is exact, the number of rows bucketed. Size 0 is legal.
// Aliasing: out may be x or b, the same elements of the same dtype. docs/elementwise.md has the contract.
#pragma once

#include <string>

#include "tile/common/row_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct ElementwiseCall {
  TensorView x, out;
  TensorView b{};                             // with an arithmetic
  Arithmetic arithmetic = Arithmetic::kNone;  // none: a cast
  std::string recipe{};                       // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status elementwise(Context& context, const ElementwiseCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status elementwise_prepare(Context& context, const ElementwiseCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> elementwise_query(Context& context, const ElementwiseCall& call,
                                                     const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> elementwise_explain(Context& context, const ElementwiseCall& call,
                                                       const Exec& exec = {});

}  // namespace tilewright
