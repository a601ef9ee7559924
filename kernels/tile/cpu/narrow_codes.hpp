// SPDX-License-Identifier: MIT
// From 16 lanes of f32 to codes of the quantised types: i8, floats of 8 bits, e2m1. Rounding, saturation and NaN are those of
// numeric.hpp; every NaN has the positive code.
#pragma once

#include "tile/common/quantise.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE I32x16 whole_bits(unsigned bits) { return I32x16::splat(static_cast<int>(bits)); }

// quantise.hpp's narrow_many, a code in each lane.
template <class Format>
TILEWRIGHT_INLINE I32x16 narrow_float_codes(F32x16 x) {
  constexpr unsigned kRebias = static_cast<unsigned>(Format::kRebias) << 23;
  constexpr unsigned kMagic = static_cast<unsigned>(Format::kRebias + 1 + Format::kShift) << 23;
  constexpr float kLargest = Format::widen(Format::kLargest);
  constexpr float kSmallest = __builtin_bit_cast(float, static_cast<unsigned>(Format::kRebias + 1) << 23);
  const F32x16 magnitude = at_most(absolute(x), F32x16::splat(kLargest));
  const I32x16 rebased = as_int(magnitude) - whole_bits(kRebias);
  const I32x16 odd = shift_right<Format::kShift>(rebased) & I32x16::splat(1);
  const I32x16 normal = shift_right<Format::kShift>(rebased + whole_bits((1u << (Format::kShift - 1)) - 1) + odd);
  const I32x16 small = as_int(magnitude + F32x16::splat(__builtin_bit_cast(float, kMagic))) - whole_bits(kMagic);
  const F32x16 code = select_less(magnitude, F32x16::splat(kSmallest), as_float(small), as_float(normal));
  I32x16 sign = shift_right<32 - Format::kBits>(as_int(x) & whole_bits(0x80000000u));
  // Types without a negative zero: its code is their NaN.
  if constexpr (Format::is_nan(Format::kSign)) {
    sign = as_int(select_less(F32x16::splat(0), to_float(as_int(code)), as_float(sign), F32x16::splat(0)));
  }
  constexpr unsigned kNaN = Format::narrow(__builtin_bit_cast(float, 0x7FC00000u));
  return as_int(select_nan(x, as_float(whole_bits(kNaN)), as_float(as_int(code) | sign)));
}

template <DType kType>
TILEWRIGHT_INLINE I32x16 narrow_codes(F32x16 x) {
  if constexpr (kType == DType::kF8E4M3) return narrow_float_codes<e4m3::Format>(x);
  if constexpr (kType == DType::kF8E5M2) return narrow_float_codes<e5m2::Format>(x);
  if constexpr (kType == DType::kF8E4M3Fnuz) return narrow_float_codes<e4m3fnuz::Format>(x);
  if constexpr (kType == DType::kF8E5M2Fnuz) return narrow_float_codes<e5m2fnuz::Format>(x);
  if constexpr (kType == DType::kF4E2M1) return narrow_float_codes<e2m1x2::Format>(x);
  if constexpr (kType == DType::kI8) {
    const F32x16 clamped = at_most(at_least(x, F32x16::splat(-128)), F32x16::splat(127));
    const F32x16 number = select_nan(x, F32x16::splat(0), clamped);
#if TILEWRIGHT_AVX512
    return {_mm512_maskz_cvtps_epi32(kAllLanes, number.v)};
#else
    return round_to_int(number);
#endif
  }
}

// The lowest byte of each lane.
TILEWRIGHT_INLINE __m128i low_bytes(I32x16 x) {
#if TILEWRIGHT_AVX512
  return _mm512_maskz_cvtepi32_epi8(kAllLanes, x.v);
#else
  const I32x16 low = x & I32x16::splat(0xFF);  // packs saturate
#if TILEWRIGHT_AVX2
  const __m128i a = _mm_packs_epi32(_mm256_castsi256_si128(low.lo.v), _mm256_extracti128_si256(low.lo.v, 1));
  const __m128i b = _mm_packs_epi32(_mm256_castsi256_si128(low.hi.v), _mm256_extracti128_si256(low.hi.v, 1));
#else
  const __m128i a = _mm_packs_epi32(low.lo.lo.v, low.lo.hi.v), b = _mm_packs_epi32(low.hi.lo.v, low.hi.hi.v);
#endif
  return _mm_packus_epi16(a, b);
#endif
}

// 16 codes to memory: as many bytes, or half of that, the even one in the low nibble.
template <DType kType>
TILEWRIGHT_INLINE void store_codes(void* p, I32x16 codes) {
  const __m128i bytes = low_bytes(codes);
  if constexpr (dtype_bits(kType) == 8) {
    _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
  } else {
    const __m128i pairs = _mm_and_si128(_mm_or_si128(bytes, _mm_srli_epi16(bytes, 4)), _mm_set1_epi16(0xFF));
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(pairs, pairs));
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
