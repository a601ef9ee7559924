// SPDX-License-Identifier: MIT
// What host and moe_routing kernels share: the argument struct, the configs, the one formula that both compute. Freestanding.
#pragma once

#include "tile/common/row_args.hpp"

namespace tilewright {

enum class RouterScore : unsigned char { kSoftmax, kSigmoid, kSqrtSoftplus };
inline constexpr const char* kRouterScoreNames[] = {"softmax", "sigmoid", "sqrt_softplus"};
constexpr const char* const* enum_names(RouterScore) { return kRouterScoreNames; }
constexpr int enum_count(RouterScore) { return 3; }

// Of a group of experts: its largest score, or the sum of its two largest.
enum class GroupScore : unsigned char { kLargest, kTwoLargest };
inline constexpr const char* kGroupScoreNames[] = {"largest", "two_largest"};
constexpr const char* const* enum_names(GroupScore) { return kGroupScoreNames; }
constexpr int enum_count(GroupScore) { return 2; }

inline constexpr int kMostExperts = 1024, kMostChosen = 32, kMostExpertGroups = 32;

struct MoeRoutingArgs {
  long long tokens;
  const void* logits;  // [tokens, experts]
  long long stride_logits;
  const void* bias;  // [experts]; null = none
  float* weights;    // [tokens, k]
  long long stride_weights;
  int* ids;
  long long stride_ids;
  int experts, k;
  int groups, group_experts, topk_groups;  // groups: 1 = any expert may be chosen
  int first_expert, local_experts;
  float scale;
  DType x, bias_dtype;
  RouterScore score;
  GroupScore group_score;
  bool scored;  // the choice is among scores; else among logits, which are in the same order
  bool renormalise;
  long long grid;  // GPU: blocks
};

// A softmax that is renormalised over the chosen takes no sum of all.
constexpr bool needs_softmax(RouterScore score, bool scored, bool renormalise) {
  return score == RouterScore::kSoftmax && (scored || !renormalise);
}
constexpr bool needs_softmax(const MoeRoutingArgs& a) { return needs_softmax(a.score, a.scored, a.renormalise); }
// Keeps a sum of scores that are all 0 from dividing.
inline constexpr float kLeastRouterSum = 1e-20f;

// log(1 + t) of 0 <= t <= 1 is 2 s times these in s^2, s = t / (2 + t): what artanh's series leaves out is below u / 40.
inline constexpr float kLogSeries[] = {1.0f, 1.0f / 3, 1.0f / 5, 1.0f / 7, 1.0f / 9, 1.0f / 11, 1.0f / 13, 1.0f / 15};

// What an expert's id becomes: its place among the local ones, -1 of others.
constexpr int local_expert(const MoeRoutingArgs& a, int expert) {
  const int place = expert - a.first_expert;
  return place >= 0 && place < a.local_experts ? place : -1;
}

// kNone: typed at run time.
struct MoeRoutingCpuConfig {
  static constexpr const char* kTypeName = "MoeRoutingCpuConfig";
  DType x;

  bool operator==(const MoeRoutingCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
  }
};

// `lanes` share a token, `group_lanes` of them a group of experts, whose pieces of 8 go round among them: at most `slots` experts a
// lane. Each keeps `kept` of the chosen. `wide`: keys of 64 bits, for any choice; else of 32, for logits of 16. `whole`: every lane
// has all its slots, in pieces that one load takes. `few`: 4 or 8 if no more are chosen; 0: any number. `sieve`: parts of a lane, if only what can be among
// those few is put in order (router_sieve.cuh); 0: all that is there. `plain`: what a call asks for follows here, else it stands in the arguments.
// `edge`: as RowGpuConfig's.
struct MoeRoutingGpuConfig {
  static constexpr const char* kTypeName = "MoeRoutingGpuConfig";
  DType x;
  int lanes, group_lanes, slots, kept;
  bool wide, whole;
  int few = 0;
  int sieve = 0;
  bool plain = false;
  RouterScore score = RouterScore::kSoftmax;
  DType bias = DType::kNone;
  bool scored = false;
  bool edge = false;

  bool operator==(const MoeRoutingGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("x", self.x);
    visit("lanes", self.lanes);
    visit("group_lanes", self.group_lanes);
    visit("slots", self.slots);
    visit("kept", self.kept);
    visit("wide", self.wide);
    visit("whole", self.whole);
    visit("few", self.few);
    visit("sieve", self.sieve);
    visit("plain", self.plain);
    visit("score", self.score);
    visit("bias", self.bias);
    visit("scored", self.scored);
    visit("edge", self.edge);
  }
};

inline constexpr int kRouterThreads = 256;  // of a block
// With `sieve`: how many of a token's experts are listed at most, a byte each.
inline constexpr int kRouterSieveListed = 32;
// Lanes that have a group of f32 each load a token together, and exchange it through so many bytes (router_exchange.cuh). Of 16 bits they were slower.
constexpr bool router_exchanges(const MoeRoutingGpuConfig& c) {
  return c.sieve > 0 && c.group_lanes == 1 && c.x == DType::kF32;
}
constexpr int router_exchange_bytes(const MoeRoutingGpuConfig& c) { return c.lanes * (c.slots / 4 + 1) * 16; }
// Of a block: exchanges first, of each token, then lists.
constexpr int router_list_offset(const MoeRoutingGpuConfig& c) {
  return router_exchanges(c) ? kRouterThreads / c.lanes * router_exchange_bytes(c) : 0;
}
constexpr int router_shared_bytes(const MoeRoutingGpuConfig& c) {
  return c.sieve > 0 ? router_list_offset(c) + kRouterThreads / c.lanes * kRouterSieveListed : 0;
}

// Null when legal, else the rule that is broken.
constexpr const char* router_sieve_refusal(const MoeRoutingGpuConfig& c) {
  if (c.sieve != 2 && c.sieve != 4) return "a sieve cuts a lane's experts in two parts or four";
  if (c.x == DType::kNone || !c.whole || c.few == 0) return "a sieve takes whole lanes and a few of the chosen";
  if (c.lanes != 4 && c.lanes != 8) return "a sieve takes four or eight lanes";
  if (!c.wide && (c.x == DType::kF32 || c.group_lanes != c.lanes))
    return "narrow keys are of logits of 16 bits, in no groups";
  if (c.lanes * c.few < kRouterSieveListed) return "a sieve of four lanes takes more than four chosen";
  if (c.slots % c.sieve != 0 || c.slots > 32) return "a sieve takes at most 32 experts a lane";
  return nullptr;
}

}  // namespace tilewright
