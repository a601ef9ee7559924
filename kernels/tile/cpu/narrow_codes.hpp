// SPDX-License-Identifier: MIT
// From 16 lanes of f32 to codes of the quantised types: i8, floats of 8 bits, e2m1. Rounding, saturation and NaN are those of
// numeric.hpp; every NaN has the positive code.
#pragma once

#include "tile/common/quantise.hpp"
#include "tile/cpu/vec_io.hpp"
#include "tile/cpu/vec_order.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE I32x16 whole_bits(unsigned bits) { return I32x16::splat(static_cast<int>(bits)); }

// Bits of `yes` where the mask has ones, else of `no`.
TILEWRIGHT_INLINE I32x16 select_bits(I32x16 mask, I32x16 yes, I32x16 no) {
#if TILEWRIGHT_AVX512
  return {_mm512_ternarylogic_epi32(yes.v, mask.v, no.v, 0xE2)};  // the mask, mostly a constant, stays where it is
#else
  return (mask & yes) | ((mask ^ I32x16::splat(-1)) & no);
#endif
}

// quantise.hpp's narrow_many, a code in each lane and nothing above it. kNumbers: no lane is NaN.
template <class Format, bool kNumbers>
TILEWRIGHT_INLINE I32x16 narrow_float_codes(F32x16 x) {
  constexpr float kLargest = Format::widen(Format::kLargest);
  constexpr unsigned kSmallest = static_cast<unsigned>(Format::kRebias + 1) << 23;  // of the normal ones
  constexpr unsigned kCode = (1u << (Format::kBits - 1)) - 1;                       // without its sign
  // Added to a float whose unit in the last place is the code's, the magnitude is rounded to whole ones, subnormals too. These, the
  // exponent, and its bias, which is added on the way, make the code: nothing else reaches the bits that count.
  constexpr unsigned kBias = (0u - (static_cast<unsigned>(Format::kRebias + 1) << (23 - Format::kShift))) & 0xFF;
  const F32x16 magnitude = at_most(absolute(x), F32x16::splat(kLargest));
  const I32x16 exponent = larger(as_int(magnitude) & whole_bits(0x7F800000u), whole_bits(kSmallest));
  const I32x16 large = exponent + whole_bits((static_cast<unsigned>(Format::kShift) << 23) + kBias);
  const I32x16 code = as_int(as_float(large) + magnitude) + shift_right<Format::kShift>(exponent);
  const I32x16 sign = shift_right<32 - Format::kBits>(as_int(x));
  I32x16 all = select_bits(whole_bits(kCode), code, sign);
  // Types without a negative zero: its code is their NaN.
  if constexpr (Format::is_nan(Format::kSign)) {
    all = select_greater(code & whole_bits(kCode), I32x16::splat(0), all, I32x16::splat(0));
  }
  if constexpr (kNumbers) return all;
  constexpr unsigned kNaN = Format::narrow(__builtin_bit_cast(float, 0x7FC00000u));
  return as_int(select_nan(x, as_float(whole_bits(kNaN)), as_float(all)));
}

template <DType kType, bool kNumbers = false>
TILEWRIGHT_INLINE I32x16 narrow_codes(F32x16 x) {
  if constexpr (kType == DType::kF8E4M3) return narrow_float_codes<e4m3::Format, kNumbers>(x);
  if constexpr (kType == DType::kF8E5M2) return narrow_float_codes<e5m2::Format, kNumbers>(x);
  if constexpr (kType == DType::kF8E4M3Fnuz) return narrow_float_codes<e4m3fnuz::Format, kNumbers>(x);
  if constexpr (kType == DType::kF8E5M2Fnuz) return narrow_float_codes<e5m2fnuz::Format, kNumbers>(x);
  if constexpr (kType == DType::kF4E2M1) return narrow_float_codes<e2m1x2::Format, kNumbers>(x);
  if constexpr (kType == DType::kI8) {
    // NaN becomes the least integer, whose lowest byte is 0.
    const F32x16 clamped = at_most(at_least(x, F32x16::splat(-128)), F32x16::splat(127));
#if TILEWRIGHT_AVX512
    return {_mm512_maskz_cvtps_epi32(kAllLanes, clamped.v)};
#else
    return round_to_int(clamped);
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

#if TILEWRIGHT_AVX512
// 64 lanes as bytes, in order.
TILEWRIGHT_INLINE __m512i join_bytes(const I32x16 (&codes)[4]) {
  const __m512i low = _mm512_packus_epi32(codes[0].v, codes[1].v), high = _mm512_packus_epi32(codes[2].v, codes[3].v);
  // Packing stays within 16 bytes: of four lanes of each vector.
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_maskz_permutexvar_epi32(kAllLanes, order, _mm512_packus_epi16(low, high));
}
TILEWRIGHT_INLINE __m512i join_bf16(F32x16 low, F32x16 high) {
  alignas(64) static constexpr auto kUpper = [] {
    struct Words {
      unsigned short word[32];
    } upper{};
    for (int i = 0; i < 32; ++i) upper.word[i] = static_cast<unsigned short>(2 * i + 1);
    return upper;
  }();
  const __m512i order = _mm512_load_si512(kUpper.word);
  // One comparison asks for NaN in both.
  if (__builtin_expect(_mm512_cmp_ps_mask(low.v, high.v, _CMP_UNORD_Q) != 0, 0)) {
    return _mm512_permutex2var_epi16(round_to_bf16(low).v, order, round_to_bf16(high).v);
  }
  return _mm512_permutex2var_epi16(round_number_to_bf16(low).v, order, round_number_to_bf16(high).v);
}
// Values of a line as its 64 bytes.
template <DType kType, bool kNumbers>
TILEWRIGHT_INLINE __m512i join_line(const F32x16* x) {
  if constexpr (kType == DType::kF32) {
    return _mm512_castps_si512(x[0].v);
  } else if constexpr (dtype_bits(kType) == 16) {
#if TILEWRIGHT_AVX512_BF16
    // The instruction takes subnormals for zero; they are rare enough for a branch.
    constexpr int kSubnormal = 0x20;
    if constexpr (kType == DType::kBf16) {
      if (__builtin_expect(
              (_mm512_fpclass_ps_mask(x[0].v, kSubnormal) | _mm512_fpclass_ps_mask(x[1].v, kSubnormal)) == 0, 1)) {
        return (__m512i)_mm512_cvtne2ps_pbh(x[1].v, x[0].v);
      }
    }
#endif
    if constexpr (kType == DType::kBf16) return join_bf16(x[0], x[1]);
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m256i low = _mm512_maskz_cvtps_ph(kAllLanes, x[0].v, kNearest);
    const __m256i high = _mm512_maskz_cvtps_ph(kAllLanes, x[1].v, kNearest);
    return _mm512_maskz_inserti64x4(0xFF, _mm512_castsi256_si512(low), high, 1);
  } else if constexpr (dtype_bits(kType) == 8) {
    I32x16 codes[4];
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      codes[i] = narrow_codes<kType, kNumbers>(x[i]);
      if constexpr (kType == DType::kI8) codes[i] = codes[i] & I32x16::splat(0xFF);
    });
    return join_bytes(codes);
  } else {
    const auto pairs = [x](int from) __attribute__((always_inline)) {
      I32x16 codes[4];
      unroll<4>([&](auto i) __attribute__((always_inline)) { codes[i] = narrow_codes<kType, kNumbers>(x[from + i]); });
      const I32x16 bytes = {join_bytes(codes)};
      return (bytes | shift_right<4>(bytes)) & I32x16::splat(0x00FF00FF);
    };
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    return _mm512_maskz_permutexvar_epi64(0xFF, order, _mm512_packus_epi16(pairs(0).v, pairs(4).v));
  }
}
#endif

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
