// SPDX-License-Identifier: MIT
// top_k: the k largest elements of each row, in order, and where they stand.
//
// Shapes: x [M, N]; lengths [M]; values and indices [M, k]. Elements of a row are neighbours, rows have any stride; lengths lie one behind
// another. Dtypes: x f32, f16, bf16; values x's; lengths, indices i32.
// Sizes: N (up to 2^31 - 1) and k (1 to 2048) are exact, M is bucketed. M = 0 and N = 0 are legal.
// Aliasing: what is written overlaps nothing.
// docs/top_k.md has the contract.
#pragma once

#include <string>

#include "tilewright/context.hpp"
#include "top_k/top_k_args.hpp"

namespace tilewright {

struct TopKCall {
  TensorView x, indices;
  TensorView values{};   // optional
  TensorView lengths{};  // optional: rows end there
  std::string recipe;    // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status top_k(Context& context, const TopKCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status top_k_prepare(Context& context, const TopKCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> top_k_query(Context& context, const TopKCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> top_k_explain(Context& context, const TopKCall& call, const Exec& exec = {});

}  // namespace tilewright
