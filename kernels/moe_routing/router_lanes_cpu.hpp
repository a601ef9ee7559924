// SPDX-License-Identifier: MIT
// Tokens side by side with AVX2: rows become lanes and lanes rows, and values are taken from eight rows at a time. Freestanding.
#pragma once

#include "tile/cpu/row.hpp"

#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512 && defined(__BMI__) && defined(__x86_64__)
#define TILEWRIGHT_ROUTER_ROWS 1

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

struct I16x16 {
  __m256i v;
  static TILEWRIGHT_INLINE I16x16 load(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
  TILEWRIGHT_INLINE void store(void* p) const { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
};
TILEWRIGHT_INLINE I16x16 larger(I16x16 a, I16x16 b) { return {_mm256_max_epi16(a.v, b.v)}; }
TILEWRIGHT_INLINE I16x16 smaller(I16x16 a, I16x16 b) { return {_mm256_min_epi16(a.v, b.v)}; }
// Not of NaN.
TILEWRIGHT_INLINE F32x8 larger(F32x8 a, F32x8 b) { return {_mm256_max_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x8 smaller(F32x8 a, F32x8 b) { return {_mm256_min_ps(a.v, b.v)}; }

// Registers become lanes and lanes registers: 8 of 32 bits, or 16 of 16. Halves change places, then neighbours go between each other.
template <int kBit, int kCount>
TILEWRIGHT_INLINE void interleave(__m256i (&r)[kCount]) {
  unroll<kCount>([&](auto i) __attribute__((always_inline)) {
    if constexpr ((i & kBit) == 0) {
      const __m256i a = r[i], b = r[i + kBit];
      if constexpr (2 * kBit == kCount) {
        r[i] = _mm256_permute2x128_si256(a, b, 0x20), r[i + kBit] = _mm256_permute2x128_si256(a, b, 0x31);
      } else if constexpr (kCount == 8) {
        r[i] = _mm256_unpacklo_epi32(a, b), r[i + kBit] = _mm256_unpackhi_epi32(a, b);
      } else {
        r[i] = _mm256_unpacklo_epi16(a, b), r[i + kBit] = _mm256_unpackhi_epi16(a, b);
      }
    }
  });
  if constexpr (kBit > 1) interleave<kBit / 2>(r);
}
template <class Vector>
TILEWRIGHT_INLINE void transpose_8x8(Vector (&lanes)[8]) {
  __m256i r[8];
  unroll<8>([&](auto i) __attribute__((always_inline)) { r[i] = (__m256i)lanes[i].v; });
  interleave<4>(r);
  unroll<8>([&](auto i) __attribute__((always_inline)) { lanes[i].v = (decltype(lanes[i].v))r[i]; });
}

// One element of each of eight rows.
template <DType kType>
TILEWRIGHT_INLINE F32x8 gather_eight(const char* const* rows, I32x8 at) {
  alignas(32) int n[8];
  at.store(n);
  if constexpr (kType == DType::kF32) {
    const auto one = [&](int t)
                         __attribute__((always_inline)) { return reinterpret_cast<const float*>(rows[t])[n[t]]; };
    return {_mm256_setr_ps(one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7))};
  } else {
    const auto word = [&](int t) __attribute__((always_inline)) {
      return static_cast<int>(reinterpret_cast<const unsigned short*>(rows[t])[n[t]]);
    };
    __m128i low = _mm_setzero_si128(), high = low;
    if constexpr (kType == DType::kBf16) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        low = _mm_insert_epi16(low, word(i), 2 * i + 1), high = _mm_insert_epi16(high, word(4 + i), 2 * i + 1);
      });
      return {_mm256_castsi256_ps(_mm256_set_m128i(high, low))};
    }
    unroll<8>([&](auto i) __attribute__((always_inline)) { low = _mm_insert_epi16(low, word(i), i); });
    return {_mm256_cvtph_ps(low)};
  }
}

// The first `count` lanes, at most eight.
TILEWRIGHT_INLINE void store_first(void* to, __m256i v, int count) {
  char* const p = static_cast<char*>(to);
  if (count == 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
    return;
  }
  __m128i rest = _mm256_castsi256_si128(v);
  int at = 0;
  if ((count & 4) != 0) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), rest);
    rest = _mm256_extracti128_si256(v, 1), at = 16;
  }
  if ((count & 2) != 0) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p + at), rest);
    rest = _mm_unpackhi_epi64(rest, rest), at += 8;
  }
  if ((count & 1) != 0) {
    const int one = _mm_cvtsi128_si32(rest);
    __builtin_memcpy(p + at, &one, 4);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
#else
#define TILEWRIGHT_ROUTER_ROWS 0
#endif
