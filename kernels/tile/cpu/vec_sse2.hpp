// SPDX-License-Identifier: MIT
// 4 lanes in one SSE2 register, which every x86-64 CPU has; vec.hpp makes 16 of four. No fused multiply-add here:
// fma() rounds twice, so results differ from the other targets in the last bits.
#pragma once

#include "tile/common/numeric.hpp"
#include "tile/cpu/isa.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

struct I32x4 {
  __m128i v;
  static constexpr int kLanes = 4;
  static TILEWRIGHT_INLINE I32x4 splat(int value) { return {_mm_set1_epi32(value)}; }
  static TILEWRIGHT_INLINE I32x4 load(const void* p) { return {_mm_loadu_si128(static_cast<const __m128i*>(p))}; }
  static TILEWRIGHT_INLINE I32x4 widen_u16(const void* p) {
    return {_mm_unpacklo_epi16(_mm_loadl_epi64(static_cast<const __m128i*>(p)), _mm_setzero_si128())};
  }
  static TILEWRIGHT_INLINE I32x4 widen_i8(const void* p) {
    int four;
    __builtin_memcpy(&four, p, 4);
    __m128i bytes = _mm_cvtsi32_si128(four);
    bytes = _mm_unpacklo_epi8(bytes, bytes);
    return {_mm_srai_epi32(_mm_unpacklo_epi16(bytes, bytes), 24)};
  }
  static TILEWRIGHT_INLINE I32x4 widen_i8_pairs(const void* p) {
    const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(p));
    return {_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8)};
  }
  TILEWRIGHT_INLINE void store(void* p) const { _mm_storeu_si128(static_cast<__m128i*>(p), v); }
  TILEWRIGHT_INLINE void narrow_16(void* p) const {
    // Signed saturation keeps the low 16 bits once they are sign-extended.
    const __m128i low = _mm_srai_epi32(_mm_slli_epi32(v, 16), 16);
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi32(low, low));
  }
};
TILEWRIGHT_INLINE I32x4 operator+(I32x4 a, I32x4 b) { return {_mm_add_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x4 operator-(I32x4 a, I32x4 b) { return {_mm_sub_epi32(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x4 operator&(I32x4 a, I32x4 b) { return {_mm_and_si128(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x4 operator|(I32x4 a, I32x4 b) { return {_mm_or_si128(a.v, b.v)}; }
TILEWRIGHT_INLINE I32x4 operator^(I32x4 a, I32x4 b) { return {_mm_xor_si128(a.v, b.v)}; }
template <int kBits>
TILEWRIGHT_INLINE I32x4 shift_left(I32x4 a) {
  return {_mm_slli_epi32(a.v, kBits)};
}
template <int kBits>
TILEWRIGHT_INLINE I32x4 shift_right(I32x4 a) {
  return {_mm_srli_epi32(a.v, kBits)};
}
template <int kBits>
TILEWRIGHT_INLINE I32x4 shift_right_signed(I32x4 a) {
  return {_mm_srai_epi32(a.v, kBits)};
}
TILEWRIGHT_INLINE I32x4 multiply_pairs_i16(I32x4 a, I32x4 b) { return {_mm_madd_epi16(a.v, b.v)}; }

struct F32x4 {
  __m128 v;
  using Int = I32x4;
  static constexpr int kLanes = 4;
  static TILEWRIGHT_INLINE F32x4 splat(float value) { return {_mm_set1_ps(value)}; }
  static TILEWRIGHT_INLINE F32x4 load(const void* p) { return {_mm_loadu_ps(static_cast<const float*>(p))}; }
  static inline F32x4 load_f16(const void* p) {
    f16 source[4];
    __builtin_memcpy(source, p, 8);
    return {_mm_setr_ps(widen(source[0]), widen(source[1]), widen(source[2]), widen(source[3]))};
  }
  TILEWRIGHT_INLINE void store(void* p) const { _mm_storeu_ps(static_cast<float*>(p), v); }
  inline void store_f16(void* p) const {
    float source[4];
    store(source);
    const f16 result[4] = {narrow<f16>(source[0]), narrow<f16>(source[1]), narrow<f16>(source[2]),
                           narrow<f16>(source[3])};
    __builtin_memcpy(p, result, 8);
  }
};
TILEWRIGHT_INLINE F32x4 operator+(F32x4 a, F32x4 b) { return {_mm_add_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x4 operator-(F32x4 a, F32x4 b) { return {_mm_sub_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x4 operator*(F32x4 a, F32x4 b) { return {_mm_mul_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x4 operator/(F32x4 a, F32x4 b) { return {_mm_div_ps(a.v, b.v)}; }
TILEWRIGHT_INLINE F32x4 fma(F32x4 a, F32x4 b, F32x4 c) { return {_mm_add_ps(_mm_mul_ps(a.v, b.v), c.v)}; }
TILEWRIGHT_INLINE F32x4 fma_less(F32x4 a, F32x4 b, F32x4 c) { return {_mm_sub_ps(_mm_mul_ps(a.v, b.v), c.v)}; }
TILEWRIGHT_INLINE F32x4 fma_from(F32x4 a, F32x4 b, F32x4 c) { return {_mm_sub_ps(c.v, _mm_mul_ps(a.v, b.v))}; }
TILEWRIGHT_INLINE F32x4 at_least(F32x4 x, F32x4 bound) { return {_mm_max_ps(bound.v, x.v)}; }
TILEWRIGHT_INLINE F32x4 at_most(F32x4 x, F32x4 bound) { return {_mm_min_ps(bound.v, x.v)}; }
TILEWRIGHT_INLINE F32x4 select_less(F32x4 a, F32x4 b, F32x4 yes, F32x4 no) {
  const __m128 mask = _mm_cmplt_ps(a.v, b.v);
  return {_mm_or_ps(_mm_and_ps(mask, yes.v), _mm_andnot_ps(mask, no.v))};
}
TILEWRIGHT_INLINE F32x4 zero_if_less(F32x4 a, F32x4 b, F32x4 no) {
  return {_mm_andnot_ps(_mm_cmplt_ps(a.v, b.v), no.v)};
}
TILEWRIGHT_INLINE F32x4 zero_unless_less(F32x4 a, F32x4 b, F32x4 yes) {
  return {_mm_and_ps(_mm_cmplt_ps(a.v, b.v), yes.v)};
}
TILEWRIGHT_INLINE F32x4 select_nan(F32x4 x, F32x4 yes, F32x4 no) {
  const __m128 mask = _mm_cmpunord_ps(x.v, x.v);
  return {_mm_or_ps(_mm_and_ps(mask, yes.v), _mm_andnot_ps(mask, no.v))};
}
TILEWRIGHT_INLINE I32x4 as_int(F32x4 a) { return {_mm_castps_si128(a.v)}; }
TILEWRIGHT_INLINE F32x4 as_float(I32x4 a) { return {_mm_castsi128_ps(a.v)}; }
TILEWRIGHT_INLINE F32x4 to_float(I32x4 a) { return {_mm_cvtepi32_ps(a.v)}; }
TILEWRIGHT_INLINE I32x4 round_to_int(F32x4 a) { return {_mm_cvtps_epi32(a.v)}; }

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
