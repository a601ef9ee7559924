// SPDX-License-Identifier: MIT
// apply_penalties: logits of tokens that were seen. Of one that prompt or output has: x / repetition where x > 0, else x * repetition; of one
// that the output has `count` times, also - frequency count - presence.
//
// Shapes: logits, out [B, V]; prompt_tokens [B, P], output_tokens [B, L], i32, any strides: numbers outside 0 to V - 1 are skipped;
// prompt_counts, output_counts [B, V], i32; repetition, presence, frequency [B], f32. All but logits and out are optional; tokens and
// counts of one kind add up. Elements of a row of logits, out and counts are neighbours, rows have any stride.
// Dtypes: logits and out f32, f16, bf16, the same. Arithmetic: f32. Sizes: V (up to 2^31 - 1) is exact, B bucketed. 0 is legal.
// Aliasing: out may be logits, the same elements: only logits that were seen are touched. docs/apply_penalties.md has the contract.
#pragma once

#include <string>

#include "tilewright/context.hpp"

namespace tilewright {

struct ApplyPenaltiesCall {
  TensorView logits, out;
  TensorView prompt_tokens{}, output_tokens{};
  TensorView prompt_counts{}, output_counts{};
  TensorView repetition{}, presence{}, frequency{};
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status apply_penalties(Context& context, const ApplyPenaltiesCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status apply_penalties_prepare(Context& context, const ApplyPenaltiesCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> apply_penalties_query(Context& context, const ApplyPenaltiesCall& call,
                                                         const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> apply_penalties_explain(Context& context, const ApplyPenaltiesCall& call,
                                                           const Exec& exec = {});

}  // namespace tilewright
