// SPDX-License-Identifier: MIT
// moe_routing_cpu: 16 tokens at a time, one in each lane. Logits become what the choice is among, as they lie, and are transposed; then
// networks of comparisons choose. Typed by its config, or at run time.
#pragma once

#include "moe_routing/router_choice_cpu.hpp"
#include "moe_routing/router_rows_cpu.hpp"
#include "moe_routing/router_scores_cpu.hpp"
#include "tile/cpu/transpose.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <DType kType>
struct RouterTokens : RouterChosen<kType> {
  using RouterChosen<kType>::args, RouterChosen<kType>::type, RouterChosen<kType>::row;
  using RouterChosen<kType>::softmax, RouterChosen<kType>::chosen;
  const char* next;                             // of the tokens after these; or where these are
  alignas(64) float value[kMostExperts][kVec];  // logits, then what the choice is among, of an expert by token

  TILEWRIGHT_INLINE RouterTokens(const MoeRoutingArgs& a, long long first, int tokens)
      : RouterChosen<kType>(a, first, tokens) {
    next = row[0] + (first + 2 * kVec <= args.tokens ? kVec : 0) * args.stride_logits * dtype_bits(type) / 8;
    int e = 0;
    if constexpr (kType == DType::kBf16) {
      for (; e + 2 * kVec <= args.experts; e += 2 * kVec) transpose_pairs(e);
    }
    for (; e + kVec <= args.experts; e += kVec) transpose(RowPiece<true>{e, kVec});
    if (e < args.experts) transpose(RowPiece<false>{e, args.experts - e});
  }
  template <class Piece>
  TILEWRIGHT_INLINE void transpose(Piece piece) {
    I32x16 rows[kVec];
    for (int t = 0; t < kVec; ++t) rows[t] = as_int(load_piece<kType>(row[t], type, piece));
    transpose_16x16(rows);
    for (int e = 0; e < piece.count; ++e) rows[e].store(value[piece.n + e]);
  }
  // Neighbours of 16 bits move together, and are apart at last: bf16 is the upper half of a float.
  TILEWRIGHT_INLINE void transpose_pairs(int first) {
    I32x16 rows[kVec];
    for (int t = 0; t < kVec; ++t) rows[t] = I32x16::load(row[t] + first * 2);
    transpose_16x16(rows);
    for (int i = 0; i < kVec; ++i) {
      shift_left<16>(rows[i]).store(value[first + 2 * i]);
      (rows[i] & I32x16::splat(-0x10000)).store(value[first + 2 * i + 1]);
    }
  }

  TILEWRIGHT_INLINE void find_softmax() {
    F32x16 most = F32x16::splat(kLeastValue), sum[4];
    for (int e = 0; e < args.experts; ++e) most = at_least(F32x16::load(value[e]), most);
    for (F32x16& part : sum) part = F32x16::splat(0);
    int e = 0;
    for (; e + 4 <= args.experts; e += 4) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        sum[i] = sum[i] + router_exponential(F32x16::load(value[e + i]), most);
      });
    }
    for (; e < args.experts; ++e) sum[0] = sum[0] + router_exponential(F32x16::load(value[e]), most);
    softmax = {most, F32x16::splat(1) / ((sum[0] + sum[1]) + (sum[2] + sum[3]))};
  }

  TILEWRIGHT_INLINE void score_all() {
    const RowVector bias{args.bias, args.bias_dtype};
    for_pieces(args.experts, [&](auto piece) __attribute__((always_inline)) {
      alignas(64) float added[kVec] = {};
      if (args.bias != nullptr) load_column(bias, piece).store(added);
      for (int i = 0; i < piece.count; ++i) {
        float* const at = value[piece.n + i];
        (router_scores(args, softmax, F32x16::load(at)) + F32x16::splat(added[i])).store(at);
      }
    });
  }
  // Sixteen logits of a token, another one for each expert: those of the next tokens come while these are chosen from.
  TILEWRIGHT_INLINE void fetch_next(int expert) const {
    const long long at = expert % kVec * args.stride_logits + expert / kVec * kVec;
    __builtin_prefetch(next + at * dtype_bits(type) / 8, 0, 3);
  }
  // NaN is as bad as minus infinity.
  TILEWRIGHT_INLINE F32x16 candidate(int expert) const {
    const F32x16 x = F32x16::load(value[expert]);
    return select_nan(x, F32x16::splat(kWorstLogit), x);
  }

  // A group's largest value, or the sum of its two largest, as a number of their order.
  TILEWRIGHT_INLINE I32x16 group_score(int group) const {
    F32x16 one = F32x16::splat(kWorstLogit), two = one;
    for (int e = group * args.group_experts; e < (group + 1) * args.group_experts; ++e) {
      const F32x16 x = candidate(e);
      two = at_least(at_most(x, one), two);
      one = at_least(x, one);
    }
    const bool sums = args.group_score == GroupScore::kTwoLargest && args.group_experts > 1;
    const F32x16 score = sums ? one + two : one;
    return ordered(select_nan(score, F32x16::splat(kWorstLogit), score));
  }

  // False: two are too near to each other for this choice.
  template <class Choice>
  TILEWRIGHT_INLINE bool choose(Choice choice) {
    I32x16 open[kMostExpertGroups];
    if (args.groups > 1) {
      I32x16 scores[kMostExpertGroups];
      for (int g = 0; g < args.groups; ++g) scores[g] = group_score(g);
      open_groups(args, scores, open);
    }
    for (int g = 0; g < args.groups; ++g) {
      const int end = (g + 1) * args.group_experts;
      for (int e = g * args.group_experts; e < end; e += Choice::kBatch) {
        I32x16 keys[Choice::kBatch];
        unroll<Choice::kBatch>([&](auto i) __attribute__((always_inline)) {
          fetch_next(e + i);
          keys[i] = e + i < end ? choice.key_of(ordered(candidate(e + i)), e + i) : I32x16::splat(kNoKey);
          if (args.groups > 1) keys[i] = select_greater(I32x16::splat(0), open[g], keys[i], I32x16::splat(kNoKey));
        });
        choice.offer(keys, e);
      }
    }
    if (!choice.is_certain(args.k)) return false;
    for (int j = 0; j < args.k; ++j) choice.expert(j).store(chosen[j]);
    if (!choice.is_ordered(args.k)) order_chosen();
    return true;
  }
  // By what the choice was among, from an order that is right but for neighbours; of equals the first one stays before.
  __attribute__((noinline)) void order_chosen() {
    alignas(64) int key[kMostChosen][kVec];
    for (int j = 0; j < args.k; ++j) {
      alignas(64) float of[kVec];
      for (int t = 0; t < kVec; ++t) of[t] = value[chosen[j][t]][t];
      const F32x16 x = F32x16::load(of);
      ordered(select_nan(x, F32x16::splat(kWorstLogit), x)).store(key[j]);
    }
    for (int end = args.k - 1; end > 0; --end) {
      for (int j = 0; j < end; ++j) {
        const I32x16 a = I32x16::load(key[j]), b = I32x16::load(key[j + 1]);
        const I32x16 first = I32x16::load(chosen[j]), second = I32x16::load(chosen[j + 1]);
        larger(a, b).store(key[j]), smaller(a, b).store(key[j + 1]);
        select_greater(b, a, second, first).store(chosen[j]), select_greater(b, a, first, second).store(chosen[j + 1]);
      }
    }
  }
};

// A unit takes tokens that follow each other.
template <MoeRoutingCpuConfig kConfig>
void moe_routing_cpu(const MoeRoutingArgs& args, unsigned unit, unsigned units) {
  // 16 bits tell a value.
  const bool packed = kConfig.x != DType::kF32 && args.x != DType::kF32 && !args.scored && args.groups == 1;
  const long long end = share_edge(args.tokens, unit + 1, units);
#if TILEWRIGHT_ROUTER_ROWS
  if constexpr (kConfig.x != DType::kNone) {
    if (takes_rows(args)) {
      for (long long first = share_edge(args.tokens, unit, units); first < end; first += kVec) {
        const int count = end - first < kVec ? static_cast<int>(end - first) : kVec;
        if (args.scored) {
          route_rows<kConfig.x, true>(args, first, count);
        } else {
          route_rows<kConfig.x, false>(args, first, count);
        }
      }
      return;
    }
  }
#endif
  for (long long first = share_edge(args.tokens, unit, units); first < end; first += kVec) {
    RouterTokens<kConfig.x> tokens(args, first, end - first < kVec ? static_cast<int>(end - first) : kVec);
    if (needs_softmax(args)) tokens.find_softmax();
    if (args.scored) tokens.score_all();
    bool chosen = false;
    if (packed && args.k <= 4) {
      chosen = tokens.choose(PackedChoice<4, false>(args.experts));
    } else if (packed && args.k <= 8) {
      chosen = tokens.choose(PackedChoice<8, false>(args.experts));
    } else if (args.k <= 4) {
      chosen = tokens.choose(PackedChoice<4, true>(args.experts));
    } else if (args.k <= 8) {
      chosen = tokens.choose(PackedChoice<8, true>(args.experts));
    }
    if (!chosen && args.k <= 8) {
      tokens.choose(OrderedChoice<8>(args.k));
    } else if (!chosen) {
      tokens.choose(OrderedChoice<kMostChosen>(args.k));
    }
    tokens.store_chosen(first);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
