// SPDX-License-Identifier: MIT
// 16 lanes in one AVX-512 register. The operations are those of vec.hpp.
#pragma once

#include "tile/cpu/isa.hpp"

#if TILEWRIGHT_AVX512

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// The plain forms of many intrinsics make g++ 12 warn about its own headers; with all lanes on, these are the same.
inline constexpr __mmask16 kAllLanes = 0xFFFF;

struct I32x16 {
  __m512i v;
  static constexpr int kLanes = 16;
  static TILEWRIGHT_INLINE I32x16 splat(int value) { return {_mm512_set1_epi32(value)}; }
  static TILEWRIGHT_INLINE I32x16 load(const void* p) { return {_mm512_loadu_si512(p)}; }
  static TILEWRIGHT_INLINE I32x16 widen_u16(const void* p) {
    return {_mm512_maskz_cvtepu16_epi32(kAllLanes, _mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  static TILEWRIGHT_INLINE I32x16 widen_i8(const void* p) {
    return {_mm512_maskz_cvtepi8_epi32(kAllLanes, _mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  // 32 bytes to 32 i16, two a lane.
  static TILEWRIGHT_INLINE I32x16 widen_i8_pairs(const void* p) {
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  TILEWRIGHT_INLINE void store(void* p) const { _mm512_storeu_si512(p, v); }
  TILEWRIGHT_INLINE void narrow_16(void* p) const {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_maskz_cvtepi32_epi16(kAllLanes, v));
  }
};
TILEWRIGHT_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x16 operator|(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x16 operator^(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
TILEWRIGHT_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm512_maskz_slli_epi32(kAllLanes, a.v, kBits)};
}
template <int kBits>
TILEWRIGHT_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm512_maskz_srli_epi32(kAllLanes, a.v, kBits)};
}
template <int kBits>
TILEWRIGHT_INLINE I32x16 shift_right_signed(I32x16 a) {
  return {_mm512_maskz_srai_epi32(kAllLanes, a.v, kBits)};
}
// Pairs of i16: a0 b0 + a1 b1 in i32.
TILEWRIGHT_INLINE I32x16 multiply_pairs_i16(I32x16 a, I32x16 b) { return {_mm512_madd_epi16(a.v, b.v)}; }

struct F32x16 {
  __m512 v;
  static constexpr int kLanes = 16;
  static TILEWRIGHT_INLINE F32x16 splat(float value) { return {_mm512_set1_ps(value)}; }
  static TILEWRIGHT_INLINE F32x16 load(const void* p) { return {_mm512_loadu_ps(p)}; }
  static TILEWRIGHT_INLINE F32x16 load_f16(const void* p) {
    return {_mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  TILEWRIGHT_INLINE void store(void* p) const { _mm512_storeu_ps(p, v); }
  TILEWRIGHT_INLINE void store_f16(void* p) const {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(kAllLanes, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
TILEWRIGHT_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
TILEWRIGHT_INLINE F32x16 fma_less(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
TILEWRIGHT_INLINE F32x16 fma_from(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
// NaN in x stays; NaN in the bound is ignored.
TILEWRIGHT_INLINE F32x16 at_least(F32x16 x, F32x16 bound) { return {_mm512_maskz_max_ps(kAllLanes, bound.v, x.v)}; }
TILEWRIGHT_INLINE F32x16 at_most(F32x16 x, F32x16 bound) { return {_mm512_maskz_min_ps(kAllLanes, bound.v, x.v)}; }
TILEWRIGHT_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
TILEWRIGHT_INLINE F32x16 zero_if_less(F32x16 a, F32x16 b, F32x16 no) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ), no.v)};
}
TILEWRIGHT_INLINE F32x16 zero_unless_less(F32x16 a, F32x16 b, F32x16 yes) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), yes.v)};
}
TILEWRIGHT_INLINE F32x16 select_nan(F32x16 x, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), no.v, yes.v)};
}
TILEWRIGHT_INLINE I32x16 as_int(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
TILEWRIGHT_INLINE F32x16 as_float(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
TILEWRIGHT_INLINE F32x16 to_float(I32x16 a) { return {_mm512_maskz_cvtepi32_ps(kAllLanes, a.v)}; }
// To nearest, ties to even.
TILEWRIGHT_INLINE F32x16 round_to_whole(F32x16 a) {
  return {_mm512_maskz_roundscale_ps(kAllLanes, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a 2^n for whole n.
TILEWRIGHT_INLINE F32x16 scale_by_power(F32x16 a, F32x16 n) { return {_mm512_maskz_scalef_ps(kAllLanes, a.v, n.v)}; }
// 1 / a for 2^-126 <= |a| <= 2^126: 14 bits and a Newton step. A division holds its port for many cycles.
TILEWRIGHT_INLINE F32x16 reciprocal(F32x16 a) {
  const __m512 r = _mm512_maskz_rcp14_ps(kAllLanes, a.v);
  return {_mm512_fmadd_ps(_mm512_fnmadd_ps(a.v, r, _mm512_set1_ps(1)), r, r)};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright

#endif  // TILEWRIGHT_AVX512
