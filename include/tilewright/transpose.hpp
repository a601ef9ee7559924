// SPDX-License-Identifier: MIT
// transpose: the last two dimensions change places in memory.
//
// Shapes: x [..., M, N]; out [..., N, M]. Elements along the last dimension are neighbours on both sides, everything else has any strides;
// x's may be 0; at most three outer dimensions stay apart. Dtypes: elements of 8, 16 or 32 bits, the same.
// Sizes: bucketed. 0 and 1 are legal. Aliasing: out may overlap nothing. docs/transpose.md has the contract.
#pragma once

#include <string>

#include "tilewright/context.hpp"

namespace tilewright {

struct TransposeCall {
  TensorView x, out;
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status transpose(Context& context, const TransposeCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status transpose_prepare(Context& context, const TransposeCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> transpose_query(Context& context, const TransposeCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> transpose_explain(Context& context, const TransposeCall& call,
                                                     const Exec& exec = {});

}  // namespace tilewright
