// SPDX-License-Identifier: MIT
// Of rows as they lie, what can be among the k best: with AVX2, whose registers are too few for what is put in order. Freestanding.
//
// A row's largest values by 16 columns are put in order: the k-th of them is a bound that k values reach at least. Few others do, so
// what reaches it is listed by the bits of comparisons, and only that is put in order.
#pragma once

#include "moe_routing/router_choice_cpu.hpp"
#include "moe_routing/router_lanes_cpu.hpp"

#if TILEWRIGHT_ROUTER_ROWS

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// The largest first.
template <class Vector>
TILEWRIGHT_INLINE void sort_sixteen(Vector* k, Vector* l) {
  sort_eight(k), sort_eight(l);
  unroll<8>([&](auto i) __attribute__((always_inline)) { order(k[i], l[7 - i]); });
  sort_bitonic<8>(k), sort_bitonic<8>(l);
}

// Rows of 16 tokens, of floats of kOf; experts come in whole pieces of 32.
template <DType kOf>
struct RouterSieve {
  static constexpr bool kWords = kOf != DType::kF32;
  static constexpr int kInfinity = kOf == DType::kF16 ? 0x7C00 : 0x7F80;  // of words
  static constexpr int kStep = 6;                                         // experts that are listed without a question

  const char* from[kVec];
  int experts, k;
  long long ahead = 0;  // to the same rows of the tokens after these, which are fetched meanwhile
  bool plain = true;    // words are compared as they lie, which is right for positive ones
  alignas(64) float bound[kVec], most[kVec];
  alignas(32) short word_bound[kVec];  // of words, in place of `bound`
  int count[kVec];
  alignas(64) unsigned short list[kMostExperts + kStep][kVec];

  TILEWRIGHT_INLINE RouterSieve(int experts_, int k_) : experts(experts_), k(k_) {}

  // Words in the order of what they stand for, NaN below all numbers.
  template <bool kPlain>
  static TILEWRIGHT_INLINE __m256i key(const char* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    if constexpr (kPlain) return x;
    const __m256i ordered = _mm256_xor_si256(x, _mm256_srli_epi16(_mm256_srai_epi16(x, 15), 1));
    const __m256i number = _mm256_cmpgt_epi16(_mm256_set1_epi16(kInfinity + 1), ordered);
    return _mm256_blendv_epi8(_mm256_set1_epi16(-0x8000), ordered, number);
  }

  template <bool kPlain>
  TILEWRIGHT_INLINE bool bound_words(bool keeps_most) {
    alignas(32) short columns[kVec][16];
    for (int t = 0; t < kVec; ++t) {
      I16x16 even{key<kPlain>(from[t])}, odd{key<kPlain>(from[t] + 32)};
      for (int e = 32; e < experts; e += 32) {
        even = larger(even, {key<kPlain>(from[t] + 2 * e)}), odd = larger(odd, {key<kPlain>(from[t] + 2 * e + 32)});
      }
      larger(even, odd).store(columns[t]);
    }
    __m256i lanes[16];
    unroll<16>([&](auto i) __attribute__((always_inline)) { lanes[i] = I16x16::load(columns[i]).v; });
    interleave<8>(lanes);
    I16x16 best[16];
    unroll<16>([&](auto i) __attribute__((always_inline)) { best[i].v = lanes[i]; });
    sort_sixteen(best, best + 8);
    unroll<16>([&](auto i) __attribute__((always_inline)) { best[i].store(columns[i]); });
    const __m256i last = I16x16::load(columns[k - 1]).v, first = best[0].v;
    const __m256i wrong = _mm256_or_si256(_mm256_cmpgt_epi16(_mm256_set1_epi16(1), last),
                                          _mm256_cmpgt_epi16(first, _mm256_set1_epi16(kInfinity)));
    if (kPlain && _mm256_movemask_epi8(wrong) != 0) return false;
    __m256i least = last, largest = first;
    if constexpr (!kPlain) {
      // Zeros of both signs are equal, and so are minus infinity and NaN.
      least = _mm256_add_epi16(least, _mm256_cmpeq_epi16(least, _mm256_setzero_si256()));
      const __m256i number = _mm256_cmpgt_epi16(least, _mm256_set1_epi16(-kInfinity - 1));
      least = _mm256_blendv_epi8(_mm256_set1_epi16(-0x8000), least, number);
      largest = _mm256_xor_si256(largest, _mm256_srli_epi16(_mm256_srai_epi16(largest, 15), 1));
    }
    I16x16{least}.store(word_bound);
    if (keeps_most) {
      alignas(32) unsigned short words[kVec];
      I16x16{largest}.store(words);
      load_vec<kOf>(words).store(most);
    }
    return true;
  }
  TILEWRIGHT_INLINE void bound_columns(const float (&columns)[kVec][16]) {
    for (int h = 0; h < kVec; h += 8) {
      alignas(32) float sorted[16][8];
      F32x8 best[2][8];
      unroll<2>([&](auto side) __attribute__((always_inline)) {
        unroll<8>([&](auto i)
                      __attribute__((always_inline)) { best[side][i] = F32x8::load(&columns[h + i][8 * side]); });
        transpose_8x8(best[side]);
      });
      sort_sixteen(best[0], best[1]);
      unroll<16>([&](auto i) __attribute__((always_inline)) { best[i / 8][i % 8].store(sorted[i]); });
      best[0][0].store(most + h);
      F32x8::load(sorted[k - 1]).store(bound + h);
    }
  }
  TILEWRIGHT_INLINE void find_bounds(bool keeps_most) {
    if constexpr (kWords) {
      plain = bound_words<true>(keeps_most);
      if (!plain) bound_words<false>(keeps_most);
    } else {
      alignas(64) float columns[kVec][16];
      for (int t = 0; t < kVec; ++t) {
        // NaN in a bound is ignored.
        F32x16 best = F32x16::splat(kWorstLogit);
        for (int e = 0; e < experts; e += 16) best = at_least(best, F32x16::load(from[t] + 4 * e));
        best.store(columns[t]);
      }
      bound_columns(columns);
    }
  }

  // Of 32 experts from e on, a bit for each that reaches the bound; NaN may.
  template <bool kPlain>
  TILEWRIGHT_INLINE unsigned reaching(__m256i least, const char* row, int e) const {
    if constexpr (kWords) {
      const __m256i a = _mm256_cmpgt_epi16(least, key<kPlain>(row + 2 * e));
      const __m256i b = _mm256_cmpgt_epi16(least, key<kPlain>(row + 2 * e + 32));
      return ~static_cast<unsigned>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xD8)));
    } else {
      __m256i at[4];
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        at[i] = _mm256_castps_si256(
            _mm256_cmp_ps(_mm256_castsi256_ps(least), F32x8::load(row + 4 * (e + 8 * i)).v, _CMP_NGT_UQ));
      });
      const __m256i parts = _mm256_packs_epi16(_mm256_packs_epi32(at[0], at[1]), _mm256_packs_epi32(at[2], at[3]));
      const __m256i bytes = _mm256_permutevar8x32_epi32(parts, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      return static_cast<unsigned>(_mm256_movemask_epi8(bytes));
    }
  }
  // Two tokens from t on: chains of bits that do not wait for each other. The first ones are listed in any case, because a branch for
  // each would often be wrong.
  TILEWRIGHT_INLINE void list_bits(const unsigned long long (&of)[2], const int (&e)[2], int t) {
    unsigned long long bits[2] = {of[0], of[1]};
    unsigned short* at[2] = {&list[count[t]][t], &list[count[t + 1]][t + 1]};
    unroll<2>([&](auto i) __attribute__((always_inline)) { count[t + i] += __builtin_popcountll(bits[i]); });
    do {
      unroll<kStep>([&](auto step) __attribute__((always_inline)) {
        unroll<2>([&](auto i) __attribute__((always_inline)) {
          at[i][step * kVec] = static_cast<unsigned short>(e[i] + static_cast<int>(_tzcnt_u64(bits[i])));
          bits[i] &= bits[i] - 1;
        });
      });
      at[0] += kStep * kVec, at[1] += kStep * kVec;
    } while ((bits[0] | bits[1]) != 0);
  }
  template <bool kPlain>
  TILEWRIGHT_INLINE void list_experts() {
    for (int t = 0; t < kVec; t += 2) {
      const __m256i least[2] = {least_of(t), least_of(t + 1)};
      count[t] = count[t + 1] = 0;
      for (int e = 0; e < experts; e += 64) {
        unsigned long long bits[2];
        unroll<2>([&](auto i) __attribute__((always_inline)) {
          const char* const row = from[t + i];
          for (int at = 0; at < 64 * kBytes<kOf>; at += 64) __builtin_prefetch(row + ahead + e * kBytes<kOf> + at);
          bits[i] = reaching<kPlain>(least[i], row, e);
          if (e + 32 < experts)
            bits[i] |= static_cast<unsigned long long>(reaching<kPlain>(least[i], row, e + 32)) << 32;
        });
        list_bits(bits, {e, e}, t);
      }
    }
  }
  // Of groups that are open, a bit each; as many of each token.
  TILEWRIGHT_INLINE void list_groups(const int* open, int size) {
    for (int t = 0; t < kVec; t += 2) {
      const __m256i least[2] = {least_of(t), least_of(t + 1)};
      count[t] = count[t + 1] = 0;
      int groups[2] = {open[t], open[t + 1]};
      for (; groups[0] != 0; groups[0] &= groups[0] - 1, groups[1] &= groups[1] - 1) {
        for (int at = 0; at < size; at += 32) {
          int e[2];
          unsigned long long bits[2];
          unroll<2>([&](auto i) __attribute__((always_inline)) {
            e[i] = __builtin_ctz(static_cast<unsigned>(groups[i])) * size + at;
            bits[i] = reaching<true>(least[i], from[t + i], e[i]);
          });
          list_bits(bits, e, t);
        }
      }
    }
  }
  TILEWRIGHT_INLINE __m256i least_of(int t) const {
    if constexpr (kWords) {
      return _mm256_set1_epi16(word_bound[t]);
    } else {
      return _mm256_castps_si256(_mm256_set1_ps(bound[t]));
    }
  }
  TILEWRIGHT_INLINE void list_all() {
    if (kWords && !plain) {
      list_experts<false>();
    } else {
      list_experts<true>();
    }
  }

  // The values of an expert each of 8 tokens, in the order of the choice.
  TILEWRIGHT_INLINE I32x8 keys(int half, I32x8 expert) const {
    const F32x8 x = gather_eight<kOf>(from + half, expert);
    return ordered(select_nan(x, F32x8::splat(kWorstLogit), x));
  }
  // The list's entries of 8 tokens, expert 0 where there is none, and which are there.
  TILEWRIGHT_INLINE I32x8 listed(int half, int slot, I32x8& there) const {
    there.v = _mm256_cmpgt_epi32(I32x8::load(count + half).v, _mm256_set1_epi32(slot));
    return I32x8::widen_u16(&list[slot][half]) & there;
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
#endif
