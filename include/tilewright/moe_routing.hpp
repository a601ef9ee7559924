// SPDX-License-Identifier: MIT
// moe_routing: which k experts take each token of a mixture of experts, and with what weights.
//
// Shapes: logits [T, E]; bias [E]; weights and ids [T, k]. Elements of a token are neighbours, tokens have any stride. Dtypes: logits
// and bias f32, f16, bf16; weights f32; ids i32. Arithmetic: f32.
// Sizes: E (1 to 1024) and k (1 to 32, at most the experts that may be chosen) are exact, T is bucketed. T = 0 is legal.
// Aliasing: what is written overlaps nothing.
// docs/moe_routing.md has the contract.
#pragma once

#include <string>

#include "moe_routing/moe_routing_args.hpp"
#include "tilewright/context.hpp"

namespace tilewright {

struct MoeRoutingCall {
  TensorView logits, weights, ids;
  TensorView bias{};  // added to the scores for the choice alone: e_score_correction_bias
  RouterScore score = RouterScore::kSoftmax;
  bool renormalise = false;             // weights of a token add up to 1
  float scale = 1;                      // a factor of the weights: routed_scaling_factor
  int64_t groups = 1, topk_groups = 1;  // of `groups` of neighbours, the best `topk_groups` may be chosen from
  GroupScore group_score = GroupScore::kTwoLargest;
  // Expert parallelism: of `local_experts` from `first_expert` on ids count from 0, those of others are -1 and their weights 0; 0 = all.
  int64_t first_expert = 0, local_experts = 0;
  std::string recipe;  // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status moe_routing(Context& context, const MoeRoutingCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status moe_routing_prepare(Context& context, const MoeRoutingCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> moe_routing_query(Context& context, const MoeRoutingCall& call,
                                                     const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> moe_routing_explain(Context& context, const MoeRoutingCall& call,
                                                       const Exec& exec = {});

}  // namespace tilewright
