// SPDX-License-Identifier: MIT
// Lanes of integers by their order.
#pragma once

#include "tile/cpu/vec.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

#if TILEWRIGHT_AVX512

TILEWRIGHT_INLINE I32x16 larger(I32x16 a, I32x16 b) { return {_mm512_maskz_max_epi32(kAllLanes, a.v, b.v)}; }
TILEWRIGHT_INLINE I32x16 smaller(I32x16 a, I32x16 b) { return {_mm512_maskz_min_epi32(kAllLanes, a.v, b.v)}; }
TILEWRIGHT_INLINE I32x16 select_greater(I32x16 a, I32x16 b, I32x16 yes, I32x16 no) {
  return {_mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a.v, b.v), no.v, yes.v)};
}
TILEWRIGHT_INLINE bool any_greater(I32x16 a, I32x16 b) { return _mm512_cmpgt_epi32_mask(a.v, b.v) != 0; }
TILEWRIGHT_INLINE bool any_equal(I32x16 a, I32x16 b) { return _mm512_cmpeq_epi32_mask(a.v, b.v) != 0; }

#else

#if TILEWRIGHT_AVX2
TILEWRIGHT_INLINE I32x8 larger(I32x8 a, I32x8 b) { return {_mm256_max_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x8 smaller(I32x8 a, I32x8 b) { return {_mm256_min_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x8 select_greater(I32x8 a, I32x8 b, I32x8 yes, I32x8 no) {
  return {_mm256_blendv_epi8(no.v, yes.v, _mm256_cmpgt_epi32(a.v, b.v))};
}
TILEWRIGHT_INLINE bool any_greater(I32x8 a, I32x8 b) { return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a.v, b.v)) != 0; }
TILEWRIGHT_INLINE bool any_equal(I32x8 a, I32x8 b) { return _mm256_movemask_epi8(_mm256_cmpeq_epi32(a.v, b.v)) != 0; }
#else
TILEWRIGHT_INLINE I32x4 select_greater(I32x4 a, I32x4 b, I32x4 yes, I32x4 no) {
  const __m128i greater = _mm_cmpgt_epi32(a.v, b.v);
  return {_mm_or_si128(_mm_and_si128(greater, yes.v), _mm_andnot_si128(greater, no.v))};
}
TILEWRIGHT_INLINE I32x4 larger(I32x4 a, I32x4 b) { return select_greater(a, b, a, b); }
TILEWRIGHT_INLINE I32x4 smaller(I32x4 a, I32x4 b) { return select_greater(a, b, b, a); }
TILEWRIGHT_INLINE bool any_greater(I32x4 a, I32x4 b) { return _mm_movemask_epi8(_mm_cmpgt_epi32(a.v, b.v)) != 0; }
TILEWRIGHT_INLINE bool any_equal(I32x4 a, I32x4 b) { return _mm_movemask_epi8(_mm_cmpeq_epi32(a.v, b.v)) != 0; }
#endif

template <class Half>
TILEWRIGHT_INLINE IntPair<Half> larger(IntPair<Half> a, IntPair<Half> b) {
  return {larger(a.lo, b.lo), larger(a.hi, b.hi)};
}
template <class Half>
TILEWRIGHT_INLINE IntPair<Half> smaller(IntPair<Half> a, IntPair<Half> b) {
  return {smaller(a.lo, b.lo), smaller(a.hi, b.hi)};
}
template <class Half>
TILEWRIGHT_INLINE IntPair<Half> select_greater(IntPair<Half> a, IntPair<Half> b, IntPair<Half> yes, IntPair<Half> no) {
  return {select_greater(a.lo, b.lo, yes.lo, no.lo), select_greater(a.hi, b.hi, yes.hi, no.hi)};
}
template <class Half>
TILEWRIGHT_INLINE bool any_greater(IntPair<Half> a, IntPair<Half> b) {
  return any_greater(a.lo, b.lo) || any_greater(a.hi, b.hi);
}
template <class Half>
TILEWRIGHT_INLINE bool any_equal(IntPair<Half> a, IntPair<Half> b) {
  return any_equal(a.lo, b.lo) || any_equal(a.hi, b.hi);
}

#endif

alignas(64) inline constexpr int kCountUp[kVec] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Lanes of two vectors where a > b, one behind the other: how many they are. 16 are written.
TILEWRIGHT_INLINE int pack_greater(I32x16 a, I32x16 b, I32x16 one, I32x16 two, int* to_one, int* to_two) {
#if TILEWRIGHT_AVX512
  // Not to memory at once, which some CPUs do a lane at a time.
  const __mmask16 mask = _mm512_cmpgt_epi32_mask(a.v, b.v);
  _mm512_storeu_si512(to_one, _mm512_maskz_compress_epi32(mask, one.v));
  _mm512_storeu_si512(to_two, _mm512_maskz_compress_epi32(mask, two.v));
  return __builtin_popcount(mask);
#else
  int left[kVec], right[kVec], from_one[kVec], from_two[kVec], count = 0;
  a.store(left), b.store(right), one.store(from_one), two.store(from_two);
  for (int i = 0; i < kVec; ++i) {
    to_one[count] = from_one[i], to_two[count] = from_two[i];
    count += left[i] > right[i] ? 1 : 0;
  }
  return count;
#endif
}

TILEWRIGHT_INLINE int largest_lane(I32x16 x) {
#if TILEWRIGHT_AVX2
#if TILEWRIGHT_AVX512
  const __m256i low = _mm512_maskz_extracti64x4_epi64(0xF, x.v, 0), high = _mm512_maskz_extracti64x4_epi64(0xF, x.v, 1);
#else
  const __m256i low = x.lo.v, high = x.hi.v;
#endif
  const __m256i eight = _mm256_max_epi32(low, high);
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
#else
  I32x4 four = larger(larger(x.lo.lo, x.lo.hi), larger(x.hi.lo, x.hi.hi));
  four = larger(four, {_mm_shuffle_epi32(four.v, 0x4E)});
  four = larger(four, {_mm_shuffle_epi32(four.v, 0xB1)});
  return _mm_cvtsi128_si32(four.v);
#endif
}

// Of all lanes, always in this order: halves are added, and halves of these.
TILEWRIGHT_INLINE float sum_lanes(F32x16 x) {
#if TILEWRIGHT_AVX2
#if TILEWRIGHT_AVX512
  const __m256 low = _mm512_maskz_extractf32x8_ps(0xFF, x.v, 0), high = _mm512_maskz_extractf32x8_ps(0xFF, x.v, 1);
#else
  const __m256 low = x.lo.v, high = x.hi.v;
#endif
  const __m256 eight = _mm256_add_ps(low, high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
  __m128 four = _mm_add_ps(_mm_add_ps(x.lo.lo.v, x.hi.lo.v), _mm_add_ps(x.lo.hi.v, x.hi.hi.v));
#endif
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}

// Whether a lane of a is less than b's; not of NaN.
TILEWRIGHT_INLINE bool any_less(F32x16 a, F32x16 b) {
#if TILEWRIGHT_AVX512
  return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ) != 0;
#else
  const I32x16 zero = I32x16::splat(0);
  return any_greater(as_int(select_less(a, b, F32x16::splat(1), F32x16::splat(0))), zero);
#endif
}

// The larger one first.
template <class Vector>
TILEWRIGHT_INLINE void order(Vector& a, Vector& b) {
  const Vector first = larger(a, b);
  b = smaller(a, b), a = first;
}

// Floats as integers of the same order, where zeros of both signs are equal; not of NaN. The least is minus infinity's; kNoKey is none's.
inline constexpr int kLeastKey = -0x7F800001, kNoKey = -0x7FFFFFFF - 1;
template <class Float>
TILEWRIGHT_INLINE auto ordered(Float x) {
  const auto bits = as_int(x + Float::splat(0));
  return bits ^ shift_right<1>(shift_right_signed<31>(bits));
}
TILEWRIGHT_INLINE float ordered_value(int key) { return __builtin_bit_cast(float, key ^ (key < 0 ? 0x7FFFFFFF : 0)); }

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
