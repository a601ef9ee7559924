// SPDX-License-Identifier: MIT
// sample: the next token of each row of logits: the most likely one, or one drawn from softmax(logits / temperature), cut by top_k, top_p and
// min_p.
//
// Shapes: logits [B, V]; the options of rows, ids and log_probabilities [B]. Elements of a row are neighbours, rows have any stride. Dtypes:
// logits f32, f16, bf16; temperature, top_p, min_p, log_probabilities f32; top_k i32; seeds, offsets and ids i32, or as [B, 2] of i32 the
// words of 64-bit numbers, the low one first.
// Sizes: V (1 to 2^31 - 1) is exact, B is bucketed. B = 0 is legal.
// Aliasing: what is written overlaps nothing.
// docs/sample.md has the contract.
#pragma once

#include <string>

#include "sample/sample_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct SampleCall {
  TensorView logits, ids;
  TensorView seeds{};              // needed unless `greedy`
  TensorView offsets{};            // 0
  TensorView temperature{};        // 1; a row below 1e-5 is greedy
  TensorView top_k{};              // 0 and less, V and more: all
  TensorView top_p{};              // 1 and more: all
  TensorView min_p{};              // 0 and less: all
  TensorView log_probabilities{};  // of the token in softmax(logits / temperature)
  SampleJoint joint = SampleJoint::kOriginalMass;
  bool greedy = false;  // the most likely token of every row
  std::string recipe;   // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status sample(Context& context, const SampleCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status sample_prepare(Context& context, const SampleCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> sample_query(Context& context, const SampleCall& call, const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> sample_explain(Context& context, const SampleCall& call, const Exec& exec = {});

}  // namespace tilewright
