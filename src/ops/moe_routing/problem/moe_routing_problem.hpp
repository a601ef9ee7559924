// SPDX-License-Identifier: MIT
// MoeRoutingProblem: one call's description without addresses. Made and validated here; everything later trusts it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "dispatch/operator.hpp"
#include "tilewright/moe_routing.hpp"

namespace tilewright {

struct MoeRoutingProblem {
  int64_t tokens = 0, experts = 0, k = 0;
  int64_t groups = 1, topk_groups = 1;
  int64_t first_expert = 0, local_experts = 0;
  int64_t stride_logits = 0, stride_weights = 0, stride_ids = 0;  // of tokens
  DType x = DType::kNone, bias = DType::kNone;
  RouterScore score = RouterScore::kSoftmax;
  GroupScore group_score = GroupScore::kTwoLargest;
  uint8_t renormalise = 0;
  uint8_t unaligned = 0;          // GPU: logits or biases begin at no multiple of 16 bytes
  uint8_t programmatic_edge = 0;  // GPU: the calls are launched so (Exec)
  uint8_t reserved[1] = {};       // no padding: problems are compared as bytes

  // Any expert may be chosen where all groups may.
  bool grouped() const { return topk_groups < groups; }
  // Logits are in the order of their scores: only where numbers are added to these does the choice need them.
  bool scored() const { return bias != DType::kNone || (grouped() && group_score == GroupScore::kTwoLargest); }
};

// Where a call's addresses and numbers stand in CallBindings.
enum MoeRoutingPointerSlot : uint16_t { kRouterLogits, kRouterBias, kRouterWeights, kRouterIds, kRouterPointerSlots };
enum MoeRoutingScalarSlot : uint16_t { kRouterScale, kRouterScalarSlots };
struct MoeRoutingBindings {
  std::array<const void*, kRouterPointerSlots> pointers{};
  std::array<float, kRouterScalarSlots> scalars{1};
};

// Checks shapes, strides, dtypes, devices, and where `check_addresses` null pointers and aliasing.
Status make_moe_routing_problem(const MoeRoutingCall& call, bool check_addresses, MoeRoutingProblem& problem,
                                MoeRoutingBindings& bindings);
// The part that needs no call: problems from text pass through it too.
Status validate_moe_routing_problem(const MoeRoutingProblem& problem);

// "t=4096:e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1"; docs/moe_routing.md.
std::string print_moe_routing_problem(const MoeRoutingProblem& problem);
Result<MoeRoutingProblem> parse_moe_routing_problem(std::string_view text);
// Tokens one behind another.
void set_contiguous(MoeRoutingProblem& problem);

// Bytes that must move: logits and bias once, weights and ids once.
double moe_routing_bytes(const MoeRoutingProblem& problem);

}  // namespace tilewright
