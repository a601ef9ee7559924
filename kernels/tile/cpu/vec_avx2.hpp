// SPDX-License-Identifier: MIT
// 8 lanes in one AVX2 register; vec.hpp makes 16 of two. The operations are those of vec.hpp.
#pragma once

#include "tile/cpu/isa.hpp"

#if TILEWRIGHT_AVX2

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

struct I32x8 {
  __m256i v;
  static constexpr int kLanes = 8;
  static TILEWRIGHT_INLINE I32x8 splat(int value) { return {_mm256_set1_epi32(value)}; }
  static TILEWRIGHT_INLINE I32x8 load(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
  static TILEWRIGHT_INLINE I32x8 widen_u16(const void* p) {
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static TILEWRIGHT_INLINE I32x8 widen_i8(const void* p) {
    return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))};
  }
  static TILEWRIGHT_INLINE I32x8 widen_i8_pairs(const void* p) {
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  TILEWRIGHT_INLINE void store(void* p) const { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  TILEWRIGHT_INLINE void narrow_16(void* p) const {
    // Signed saturation keeps the low 16 bits once they are sign-extended.
    const __m256i low = _mm256_srai_epi32(_mm256_slli_epi32(v, 16), 16);
    _mm_storeu_si128(static_cast<__m128i*>(p),
                     _mm_packs_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
  }
};
TILEWRIGHT_INLINE I32x8 operator+(I32x8 a, I32x8 b) { return {_mm256_add_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x8 operator-(I32x8 a, I32x8 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x8 operator&(I32x8 a, I32x8 b) { return {_mm256_and_si256(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x8 operator|(I32x8 a, I32x8 b) { return {_mm256_or_si256(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x8 operator^(I32x8 a, I32x8 b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int kBits>
TILEWRIGHT_INLINE I32x8 shift_left(I32x8 a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
TILEWRIGHT_INLINE I32x8 shift_right(I32x8 a) {
  return {_mm256_srli_epi32(a.v, kBits)};
}
template <int kBits>
TILEWRIGHT_INLINE I32x8 shift_right_signed(I32x8 a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}
TILEWRIGHT_INLINE I32x8 multiply_pairs_i16(I32x8 a, I32x8 b) { return {_mm256_madd_epi16(a.v, b.v)}; }

struct F32x8 {
  __m256 v;
  using Int = I32x8;
  static constexpr int kLanes = 8;
  static TILEWRIGHT_INLINE F32x8 splat(float value) { return {_mm256_set1_ps(value)}; }
  static TILEWRIGHT_INLINE F32x8 load(const void* p) { return {_mm256_loadu_ps(static_cast<const float*>(p))}; }
  static TILEWRIGHT_INLINE F32x8 load_f16(const void* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  TILEWRIGHT_INLINE void store(void* p) const { _mm256_storeu_ps(static_cast<float*>(p), v); }
  TILEWRIGHT_INLINE void store_f16(void* p) const {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
TILEWRIGHT_INLINE F32x8 operator+(F32x8 a, F32x8 b) { return {_mm256_add_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x8 operator-(F32x8 a, F32x8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x8 operator*(F32x8 a, F32x8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x8 operator/(F32x8 a, F32x8 b) { return {_mm256_div_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
TILEWRIGHT_INLINE F32x8 fma_less(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fmsub_ps(a.v, b.v, c.v)}; }
TILEWRIGHT_INLINE F32x8 fma_from(F32x8 a, F32x8 b, F32x8 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
TILEWRIGHT_INLINE F32x8 at_least(F32x8 x, F32x8 bound) { return {_mm256_max_ps(bound.v, x.v)}; }
TILEWRIGHT_INLINE F32x8 at_most(F32x8 x, F32x8 bound) { return {_mm256_min_ps(bound.v, x.v)}; }
TILEWRIGHT_INLINE F32x8 select_less(F32x8 a, F32x8 b, F32x8 yes, F32x8 no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
TILEWRIGHT_INLINE F32x8 zero_if_less(F32x8 a, F32x8 b, F32x8 no) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_NLT_UQ), no.v)};
}
TILEWRIGHT_INLINE F32x8 zero_unless_less(F32x8 a, F32x8 b, F32x8 yes) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ), yes.v)};
}
TILEWRIGHT_INLINE F32x8 select_nan(F32x8 x, F32x8 yes, F32x8 no) {
  return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q))};
}
TILEWRIGHT_INLINE I32x8 as_int(F32x8 a) { return {_mm256_castps_si256(a.v)}; }
TILEWRIGHT_INLINE F32x8 as_float(I32x8 a) { return {_mm256_castsi256_ps(a.v)}; }
TILEWRIGHT_INLINE F32x8 to_float(I32x8 a) { return {_mm256_cvtepi32_ps(a.v)}; }
TILEWRIGHT_INLINE I32x8 round_to_int(F32x8 a) { return {_mm256_cvtps_epi32(a.v)}; }

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright

#endif  // TILEWRIGHT_AVX2
