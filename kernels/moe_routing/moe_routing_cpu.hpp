// SPDX-License-Identifier: MIT
// moe_routing_cpu: a token's logits become what the choice is among, 16 at a time; then each that is better than the worst of the chosen
// finds its place among them. Typed by its config, or at run time.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/cpu/row.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr float kWorstLogit = __builtin_bit_cast(float, 0xFF800000u);

TILEWRIGHT_INLINE F32x16 sqrt_softplus(F32x16 x) {
  const F32x16 t = exp(F32x16::splat(0) - absolute(x)), s = t / (F32x16::splat(2) + t);
  const F32x16 positive = select_nan(x, x, at_least(x, F32x16::splat(0)));
  float lane[kVec];
  fma(s + s, polynomial(s * s, kLogSeries), positive).store(lane);
  for (float& one : lane) one = __builtin_sqrtf(one);
  return F32x16::load(lane);
}

// Those of a token that were found so far, best first.
struct RouterChosen {
  int count = 0;
  float value[kMostChosen];
  int expert[kMostChosen];

  // Experts come in ascending order: of equals the first one stays before.
  TILEWRIGHT_INLINE void offer(int most, float v, int e) {
    int at = count < most ? count++ : most - 1;
    for (; at > 0 && v > value[at - 1]; --at) value[at] = value[at - 1], expert[at] = expert[at - 1];
    value[at] = v, expert[at] = e;
  }
  TILEWRIGHT_INLINE void offer_all(int most, const float* v, int begin, int end) {
    for (int e = begin; e < end; ++e) {
      if (count < most || v[e] > value[most - 1]) offer(most, v[e], e);
    }
  }
};

// What the scores of a token have in common.
struct RouterToken {
  float most = 0, inverse = 1;
};
TILEWRIGHT_INLINE F32x16 router_scores(const MoeRoutingArgs& args, const RouterToken& token, F32x16 x) {
  switch (args.score) {
    case RouterScore::kSigmoid: return sigmoid(x);
    case RouterScore::kSqrtSoftplus: return sqrt_softplus(x);
    default: return exp(x - F32x16::splat(token.most)) * F32x16::splat(token.inverse);
  }
}
// The largest of a softmax and what its exponentials are multiplied by, of value(piece).
template <class Value>
TILEWRIGHT_INLINE RouterToken router_softmax(int count, Value&& value) {
  RouterToken token;
  token.most = largest_value(count, kLeastValue, value);
  float sum[1];
  sum_row(count, sum, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
    part[0] = part[0] + within_row(exp(value(piece) - F32x16::splat(token.most)), piece);
  });
  token.inverse = 1 / sum[0];
  return token;
}

template <DType kType>
TILEWRIGHT_INLINE void route_token(const MoeRoutingArgs& args, long long at) {
  const DType type = kType == DType::kNone ? args.x : kType;
  const char* const row = static_cast<const char*>(args.logits) + at * args.stride_logits * dtype_bits(type) / 8;
  const RowVector bias{args.bias, args.bias_dtype};
  float v[kMostExperts];
  const auto logits = [&](auto piece) __attribute__((always_inline)) { return load_piece<kType>(row, type, piece); };
  RouterToken token;
  if (needs_softmax(args)) token = router_softmax(args.experts, logits);
  for_pieces(args.experts, [&](auto piece) __attribute__((always_inline)) {
    F32x16 x = logits(piece);
    if (args.scored) {
      x = router_scores(args, token, x);
      if (args.bias != nullptr) x = x + load_column(bias, piece);
    }
    // NaN is as bad as minus infinity.
    store_typed<DType::kF32>(reinterpret_cast<char*>(v + piece.n), piece, select_nan(x, F32x16::splat(kWorstLogit), x));
  });

  RouterChosen chosen;
  if (args.groups == 1) {
    chosen.offer_all(args.k, v, 0, args.experts);
  } else {
    // Groups are chosen as experts are.
    RouterChosen best;
    for (int g = 0; g < args.groups; ++g) {
      RouterChosen two;
      const bool sums = args.group_score == GroupScore::kTwoLargest && args.group_experts > 1;
      two.offer_all(2, v, g * args.group_experts, (g + 1) * args.group_experts);
      const float score = sums ? two.value[0] + two.value[1] : two.value[0];
      best.offer(args.topk_groups + 1, score == score ? score : kWorstLogit, g);
      if (best.count > args.topk_groups) best.count = args.topk_groups;
    }
    bool open[kMostExpertGroups] = {};
    for (int i = 0; i < best.count; ++i) open[best.expert[i]] = true;
    for (int g = 0; g < args.groups; ++g) {
      if (open[g]) chosen.offer_all(args.k, v, g * args.group_experts, (g + 1) * args.group_experts);
    }
  }

  // Scores of the chosen, from their logits.
  float x[kMostChosen];
  for (int j = 0; j < args.k; ++j) {
    const RowPiece<false> one{chosen.expert[j], 1};
    float lane[kVec];
    load_piece<kType>(row, type, one).store(lane);
    x[j] = lane[0];
  }
  const auto piece_of = [&](auto piece) __attribute__((always_inline)) {
    return load_piece<DType::kF32>(reinterpret_cast<const char*>(x), DType::kF32, piece);
  };
  if (args.score == RouterScore::kSoftmax && !needs_softmax(args)) {
    token.most = largest_value(args.k, kLeastValue, piece_of);
  }
  float weight[kMostChosen], sum[1];
  sum_row(args.k, sum, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
    const F32x16 scores = router_scores(args, token, piece_of(piece));
    store_typed<DType::kF32>(reinterpret_cast<char*>(weight + piece.n), piece, scores);
    part[0] = part[0] + within_row(scores, piece);
  });
  const float by = args.renormalise ? args.scale / (sum[0] + kLeastRouterSum) : args.scale;
  for (int j = 0; j < args.k; ++j) {
    const int id = local_expert(args, chosen.expert[j]);
    args.ids[at * args.stride_ids + j] = id;
    args.weights[at * args.stride_weights + j] = id < 0 ? 0 : weight[j] * by;
  }
}

// A unit takes tokens that follow each other.
template <MoeRoutingCpuConfig kConfig>
void moe_routing_cpu(const MoeRoutingArgs& args, unsigned unit, unsigned units) {
  const auto edge = [&](unsigned of) {
    const long long each = args.tokens / units, more = args.tokens % units;
    return of * each + (of < more ? of : more);
  };
  for (long long token = edge(unit); token < edge(unit + 1); ++token) route_token<kConfig.x>(args, token);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
