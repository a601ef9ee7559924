// SPDX-License-Identifier: MIT
// 16 tokens at a time by their rows, with AVX2: what can be chosen is found first (router_sieve_cpu.hpp), and only that is transposed. Freestanding.
#pragma once

#include "moe_routing/router_scores_cpu.hpp"
#include "moe_routing/router_sieve_cpu.hpp"

#if TILEWRIGHT_ROUTER_ROWS

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kMostOfRows = 16;  // that are chosen: there are as many columns

// Of fewer experts networks that sort all of them are as fast.
TILEWRIGHT_INLINE bool takes_rows(const MoeRoutingArgs& a) {
  if (a.experts < 64 || a.k > kMostOfRows || a.group_experts % 32 != 0 || a.groups > 8) return false;
  return a.scored ? a.score != RouterScore::kSoftmax : a.groups == 1;
}

template <DType kType, bool kScored>
struct RouterRows : RouterChosen<kType> {
  using RouterChosen<kType>::args, RouterChosen<kType>::type, RouterChosen<kType>::row;
  using RouterChosen<kType>::softmax, RouterChosen<kType>::chosen;
  static constexpr DType kOf = kScored ? DType::kF32 : kType;
  RouterSieve<kOf> sieve;

  TILEWRIGHT_INLINE RouterRows(const MoeRoutingArgs& a, long long first, int tokens)
      : RouterChosen<kType>(a, first, tokens), sieve(a.experts, a.k) {
    for (int t = 0; t < kVec; ++t) sieve.from[t] = row[t];
    if (first + 2 * kVec <= args.tokens) sieve.ahead = kVec * args.stride_logits * kBytes<kType>;
  }

  // Scores of the tokens, NaN as minus infinity, in rows of their own. Of groups, also which of them are open, and the largest
  // values of these by columns.
  struct Scored {
    alignas(64) float added[kMostExperts], columns[kVec][16], score[kVec * (kMostExperts + 16)];
    int open[kVec];
  };
  template <class Score>
  TILEWRIGHT_INLINE void score_rows(Scored& to, Score score) {
    const RowVector bias{args.bias, args.bias_dtype};
    for (int e = 0; e < args.experts; e += kVec) {
      const F32x16 zero = F32x16::splat(0);
      (args.bias != nullptr ? load_column(bias, RowPiece<true>{e, kVec}) : zero).store(to.added + e);
    }
    // Copies, which no store reaches.
    const int experts = args.experts, groups = args.groups, size = args.group_experts;
    for (int t = 0; t < kVec; ++t) {
      const char* const from = row[t];
      for (int i = 0; i < experts * kBytes<kType>; i += 64) __builtin_prefetch(from + sieve.ahead + i);
      float* const at = to.score + t * (experts + 16);
      sieve.from[t] = reinterpret_cast<const char*>(at);
      F32x8 one[8], two[8];
      for (int g = 0; g < 8; ++g) one[g] = two[g] = F32x8::splat(kWorstLogit);
      for (int g = 0; g < groups; ++g) {
        F32x8 first = one[g], second = first;
        for (int e = g * size; e < (g + 1) * size; e += kVec) {
          const F32x16 x = score(load_vec<kType>(from + e * kBytes<kType>)) + F32x16::load(to.added + e);
          const F32x16 value = at_least(F32x16::splat(kWorstLogit), x);
          value.store(at + e);
          second = larger(second, smaller(first, value.lo)), first = larger(first, value.lo);
          second = larger(second, smaller(first, value.hi)), first = larger(first, value.hi);
        }
        one[g] = first, two[g] = second;
      }
      if (groups == 1) continue;
      F32x8 lane[8];
      unroll<8>([&](auto g) __attribute__((always_inline)) { lane[g] = one[g]; });
      to.open[t] = open_groups(lane, two);
      F32x8 even = F32x8::splat(kWorstLogit), odd = even;
      for (int open = to.open[t]; open != 0; open &= open - 1) {
        const F32x8 best = larger(even, one[__builtin_ctz(static_cast<unsigned>(open))]);
        even = odd, odd = best;
      }
      even.store(to.columns[t]), odd.store(to.columns[t] + 8);
    }
  }
  // A bit for each of the groups that a token may choose from. In order of their scores, of equals the first one before.
  TILEWRIGHT_INLINE int open_groups(F32x8 (&one)[8], F32x8 (&two)[8]) const {
    transpose_8x8(one), transpose_8x8(two);
    unroll<3>([&](auto step) __attribute__((always_inline)) {
      constexpr int half = 4 >> step;
      unroll<half>([&](auto i) __attribute__((always_inline)) {
        two[i] = larger(larger(two[i], two[i + half]), smaller(one[i], one[i + half]));
        one[i] = larger(one[i], one[i + half]);
      });
    });
    const bool sums = args.group_score == GroupScore::kTwoLargest;
    const F32x8 worst = F32x8::splat(kWorstLogit), score = sums ? at_least(worst, one[0] + two[0]) : one[0];
    const I32x8 mine = ordered(score);
    I32x8 better = I32x8::splat(0);
    const I32x8 lane = {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)};
    unroll<7>([&](auto i) __attribute__((always_inline)) {
      const I32x8 other = lane + I32x8::splat(i + 1);  // of eight, so that it is an earlier one from eight on
      const I32x8 earlier = {_mm256_cmpgt_epi32(other.v, _mm256_set1_epi32(7))};
      const __m256i score_of = _mm256_permutevar8x32_epi32(mine.v, other.v);
      better = better - I32x8{_mm256_cmpgt_epi32(score_of, (mine + earlier).v)};
    });
    const __m256i open = _mm256_cmpgt_epi32(_mm256_set1_epi32(args.topk_groups), better.v);
    return _mm256_movemask_ps(_mm256_castsi256_ps(open));
  }

  // Each token's sum has four parts, of every fourth expert: two tokens side by side.
  TILEWRIGHT_INLINE void find_softmax() {
    alignas(64) float parts[kVec][4], sum[kVec];
    const F32x16 most = at_least(F32x16::load(sieve.most), F32x16::splat(kLeastValue));
    most.store(sieve.most);
    for (int t = 0; t < kVec; t += 2) {
      const F32x8 both = {_mm256_set_m128(_mm_set1_ps(sieve.most[t + 1]), _mm_set1_ps(sieve.most[t]))};
      F32x8 total = F32x8::splat(0);
      for (int e = 0; e < args.experts; e += 8) {
        const F32x16 x = load_fours(row[t] + e * kBytes<kType>, row[t + 1] + e * kBytes<kType>);
        const F32x16 part = router_exponential(x, {both, both});
        total = (total + part.lo) + part.hi;
      }
      total.store(parts[t]);
    }
    for (int t = 0; t < kVec; ++t) sum[t] = (parts[t][0] + parts[t][1]) + (parts[t][2] + parts[t][3]);
    softmax = {most, F32x16::splat(1) / F32x16::load(sum)};
  }
  // Twice four experts of both tokens.
  static TILEWRIGHT_INLINE F32x16 load_fours(const char* low, const char* high) {
    const __m256i both = two_rows(low, high), zero = _mm256_setzero_si256();
    if constexpr (kType == DType::kBf16) {
      return as_float(I32x16{{_mm256_unpacklo_epi16(zero, both)}, {_mm256_unpackhi_epi16(zero, both)}});
    } else if constexpr (kType == DType::kF16) {
      const __m256i fours = _mm256_permute4x64_epi64(both, 0xD8);
      return {{_mm256_cvtph_ps(_mm256_castsi256_si128(fours))}, {_mm256_cvtph_ps(_mm256_extracti128_si256(fours, 1))}};
    } else {
      return as_float(I32x16{{both}, {two_rows(low + 16, high + 16)}});
    }
  }
  static TILEWRIGHT_INLINE __m256i two_rows(const char* low, const char* high) {
    return _mm256_set_m128i(_mm_loadu_si128(reinterpret_cast<const __m128i*>(high)),
                            _mm_loadu_si128(reinterpret_cast<const __m128i*>(low)));
  }

  template <class Choice>
  TILEWRIGHT_INLINE bool choose(int half, int slots, Choice choice) {
    for (int slot = 0; slot < slots; slot += Choice::kBatch) {
      I32x8 keys[Choice::kBatch];
      unroll<Choice::kBatch>([&](auto i) __attribute__((always_inline)) {
        I32x8 there;
        const I32x8 expert = sieve.listed(half, slot + i, there), key = choice.key_of(sieve.keys(half, expert), expert);
        keys[i].v = _mm256_blendv_epi8(_mm256_set1_epi32(kNoKey), key.v, there.v);
        if constexpr (Choice::kBatch == 1) choice.offer(keys[i], expert);
      });
      if constexpr (Choice::kBatch > 1) choice.offer(keys);
    }
    if (!choice.is_certain(args.k)) return false;
    for (int j = 0; j < args.k; ++j) choice.expert(j).store(&chosen[j][half]);
    if (!choice.is_ordered(args.k)) order_chosen(half);
    return true;
  }
  // By what the choice was among, from an order that is right but for neighbours; of equals the first one stays before.
  __attribute__((noinline)) void order_chosen(int half) {
    I32x8 key[kMostOfRows], expert[kMostOfRows];
    for (int j = 0; j < args.k; ++j) {
      expert[j] = I32x8::load(&chosen[j][half]);
      key[j] = sieve.keys(half, expert[j]);
    }
    for (int end = args.k - 1; end > 0; --end) {
      for (int j = 0; j < end; ++j) {
        const I32x8 a = key[j], b = key[j + 1], first = expert[j], second = expert[j + 1];
        key[j] = larger(a, b), key[j + 1] = smaller(a, b);
        expert[j] = select_greater(b, a, second, first), expert[j + 1] = select_greater(b, a, first, second);
      }
    }
    for (int j = 0; j < args.k; ++j) expert[j].store(&chosen[j][half]);
  }
  TILEWRIGHT_INLINE void choose() {
    constexpr bool kCuts = kOf == DType::kF32;
    for (int half = 0; half < kVec; half += 8) {
      int slots = 0;
      for (int t = half; t < half + 8; ++t) slots = sieve.count[t] > slots ? sieve.count[t] : slots;
      if (args.k <= 4) {
        if (choose(half, slots, PackedChoice<4, kCuts, I32x8>(args.experts))) continue;
      } else if (args.k <= 8) {
        if (choose(half, slots, PackedChoice<8, kCuts, I32x8>(args.experts))) continue;
      }
      choose(half, slots, OrderedChoice<kMostOfRows, I32x8>(args.k));
    }
  }
};

template <DType kType, bool kScored>
__attribute__((noinline)) void route_rows(const MoeRoutingArgs& args, long long first, int count) {
  using Rows = RouterRows<kType, kScored>;
  Rows rows(args, first, count);
  if constexpr (kScored) {
    typename Rows::Scored scored;
    if (args.score == RouterScore::kSigmoid) {
      rows.score_rows(scored, [](F32x16 x) __attribute__((always_inline)) { return sigmoid(x); });
    } else {
      rows.score_rows(scored, [](F32x16 x) __attribute__((always_inline)) { return sqrt_softplus(x); });
    }
    if (args.groups > 1) {
      rows.sieve.bound_columns(scored.columns);
      rows.sieve.list_groups(scored.open, args.group_experts);
    } else {
      rows.sieve.find_bounds(false);
      rows.sieve.list_all();
    }
    rows.choose();
  } else {
    rows.sieve.find_bounds(needs_softmax(args));
    if (needs_softmax(args)) rows.find_softmax();
    rows.sieve.list_all();
    rows.choose();
  }
  rows.store_chosen(first);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
#endif
