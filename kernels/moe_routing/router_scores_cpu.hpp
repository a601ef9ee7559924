// SPDX-License-Identifier: MIT
// Scores of experts, and what a call is given of 16 tokens once their experts are chosen. Freestanding.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "moe_routing/router_lanes_cpu.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE F32x16 sqrt_softplus(F32x16 x) {
  const F32x16 t = exp(F32x16::splat(0) - absolute(x)), s = t / (F32x16::splat(2) + t);
  const F32x16 positive = select_nan(x, x, at_least(x, F32x16::splat(0)));
  float lane[kVec];
  fma(s + s, polynomial(s * s, kLogSeries), positive).store(lane);
  for (float& one : lane) one = __builtin_sqrtf(one);
  return F32x16::load(lane);
}

// exp(x - most)
TILEWRIGHT_INLINE F32x16 router_exponential(F32x16 x, F32x16 most) {
  return exp2_below_one(x - most, F32x16::splat(1.44269504f));
}
// What the scores of a token in each lane have in common.
struct RouterSoftmax {
  F32x16 most, inverse;
};
TILEWRIGHT_INLINE F32x16 router_scores(const MoeRoutingArgs& args, const RouterSoftmax& by, F32x16 x) {
  switch (args.score) {
    case RouterScore::kSigmoid: return sigmoid(x);
    case RouterScore::kSqrtSoftplus: return sqrt_softplus(x);
    default: return router_exponential(x, by.most) * by.inverse;
  }
}

// 16 tokens, or the last `count`; other lanes have the first one.
template <DType kType>
struct RouterChosen {
  const MoeRoutingArgs& args;
  DType type;
  int count;
  const char* row[kVec];
  RouterSoftmax softmax{};
  alignas(64) int chosen[kMostChosen][kVec];

  TILEWRIGHT_INLINE RouterChosen(const MoeRoutingArgs& a, long long first, int tokens)
      : args(a), type(kType == DType::kNone ? a.x : kType), count(tokens) {
    for (int t = 0; t < kVec; ++t) {
      const long long token = first + (t < count ? t : 0);
      row[t] = static_cast<const char*>(args.logits) + token * args.stride_logits * dtype_bits(type) / 8;
    }
  }

  TILEWRIGHT_INLINE float logit(int t, int expert) const {
    if (type == DType::kF32) return read_as<float>(reinterpret_cast<const float*>(row[t]) + expert);
    if (type == DType::kBf16) return widen(reinterpret_cast<const bf16*>(row[t])[expert]);
    return widen(reinterpret_cast<const f16*>(row[t])[expert]);
  }
  // Scores of the chosen, from their logits.
  TILEWRIGHT_INLINE void store_chosen(long long first) {
    alignas(64) float weight[kMostChosen][kVec];
    RouterSoftmax by = softmax;
    const bool of_chosen = args.score == RouterScore::kSoftmax && !needs_softmax(args);
    if (of_chosen) by = {F32x16::splat(kLeastValue), F32x16::splat(1)};
    for (int j = 0; j < args.k; ++j) {
      chosen_logits(j, weight[j]);
      if (of_chosen) by.most = at_least(F32x16::load(weight[j]), by.most);
    }
    F32x16 sum = F32x16::splat(0);
    for (int j = 0; j < args.k; ++j) {
      const F32x16 score = router_scores(args, by, F32x16::load(weight[j]));
      score.store(weight[j]);
      sum = sum + score;
    }
    F32x16 factor = F32x16::splat(args.scale);
    if (args.renormalise) factor = factor / (sum + F32x16::splat(kLeastRouterSum));
    for (int j = 0; j < args.k; ++j) (F32x16::load(weight[j]) * factor).store(weight[j]);
#if TILEWRIGHT_ROUTER_ROWS
    store_rows(first, weight);
#else
    for (int t = 0; t < count; ++t) {
      for (int j = 0; j < args.k; ++j) {
        const int id = local_expert(args, chosen[j][t]);
        args.ids[(first + t) * args.stride_ids + j] = id;
        args.weights[(first + t) * args.stride_weights + j] = id < 0 ? 0 : weight[j][t];
      }
    }
#endif
  }

 private:
  TILEWRIGHT_INLINE void chosen_logits(int j, float* to) const {
#if TILEWRIGHT_ROUTER_ROWS
    if constexpr (kType != DType::kNone) {
      gather_eight<kType>(row, I32x8::load(chosen[j])).store(to);
      gather_eight<kType>(row + 8, I32x8::load(chosen[j] + 8)).store(to + 8);
      return;
    }
#endif
    for (int t = 0; t < kVec; ++t) to[t] = logit(t, chosen[j][t]);
  }
#if TILEWRIGHT_ROUTER_ROWS
  // What was side by side as rows again, eight of eight at a time.
  TILEWRIGHT_INLINE void store_rows(long long first, const float (&weight)[kMostChosen][kVec]) const {
    const I32x8 before = I32x8::splat(args.first_expert), last = I32x8::splat(args.local_experts - 1);
    for (int half = 0; half < count; half += 8) {
      for (int j = 0; j < args.k; j += 8) {
        const int columns = args.k - j < 8 ? args.k - j : 8;
        I32x8 ids[8], weights[8];
        for (int i = 0; i < columns; ++i) {
          const I32x8 place = I32x8::load(&chosen[j + i][half]) - before;
          const __m256i other =
              _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_setzero_si256(), place.v), _mm256_cmpgt_epi32(place.v, last.v));
          ids[i].v = _mm256_or_si256(place.v, other);
          weights[i].v = _mm256_andnot_si256(other, I32x8::load(&weight[j + i][half]).v);
        }
        for (int i = columns; i < 8; ++i) ids[i] = ids[0], weights[i] = weights[0];
        transpose_8x8(ids), transpose_8x8(weights);
        const int rows = count - half < 8 ? count - half : 8;
        for (int t = 0; t < rows; ++t) {
          store_first(args.ids + (first + half + t) * args.stride_ids + j, ids[t].v, columns);
          store_first(args.weights + (first + half + t) * args.stride_weights + j, weights[t].v, columns);
        }
      }
    }
  }
#endif
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
