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

// quantise.hpp's narrow_many, a code in each lane and nothing above it. kNumbers: no lane is NaN. kMagnitudes: without the sign.
template <class Format, bool kNumbers, bool kMagnitudes = false>
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
  if constexpr (kMagnitudes) return code & whole_bits(kCode);
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
using Line = __m512i;
TILEWRIGHT_INLINE void store_line(char* to, Line line, bool stream) {
  if (stream) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
  } else {
    _mm512_storeu_si512(to, line);
  }
}
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
TILEWRIGHT_INLINE Line join_line(const F32x16* x) {
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
#elif TILEWRIGHT_AVX2
struct Line {
  __m256i half[2];
};
TILEWRIGHT_INLINE void store_line(char* to, const Line& line, bool stream) {
  auto* const halves = reinterpret_cast<__m256i*>(to);
  if (stream) {
    _mm256_stream_si256(halves, line.half[0]), _mm256_stream_si256(halves + 1, line.half[1]);
  } else {
    _mm256_storeu_si256(halves, line.half[0]), _mm256_storeu_si256(halves + 1, line.half[1]);
  }
}
// 32 lanes below 2^8 as bytes, by fours in an order that ordered() mends: packing stays within 16 bytes.
TILEWRIGHT_INLINE __m256i pack_bytes(I32x16 low, I32x16 high) {
  return _mm256_packus_epi16(_mm256_packus_epi32(low.lo.v, low.hi.v), _mm256_packus_epi32(high.lo.v, high.hi.v));
}
// Bytes with the signs of 32 lanes, in the same order.
TILEWRIGHT_INLINE __m256i pack_signs(F32x16 low, F32x16 high) {
  const I32x16 a = as_int(low), b = as_int(high);
  const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(a.lo.v, a.hi.v), _mm256_packs_epi32(b.lo.v, b.hi.v));
  return _mm256_and_si256(all, _mm256_set1_epi8(-128));
}
TILEWRIGHT_INLINE __m256i ordered(__m256i bytes) {
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
// Codes of 32 lanes as bytes in that order; of floats that are numbers their signs are packed apart, a byte each.
template <DType kType, bool kNumbers>
TILEWRIGHT_INLINE __m256i pack_codes(F32x16 low, F32x16 high) {
  if constexpr (kType == DType::kI8) {
    const I32x16 a = narrow_codes<kType>(low), b = narrow_codes<kType>(high), byte = I32x16::splat(0xFF);
    if constexpr (!kNumbers) return pack_bytes(a & byte, b & byte);  // NaN is 0
    return _mm256_packs_epi16(_mm256_packs_epi32(a.lo.v, a.hi.v), _mm256_packs_epi32(b.lo.v, b.hi.v));
  } else {
    const auto with_signs = [&](auto format) __attribute__((always_inline)) {
      using Format = typename decltype(format)::Format;
      const __m256i signs = pack_signs(low, high);
      const __m256i codes =
          pack_bytes(narrow_float_codes<Format, true, true>(low), narrow_float_codes<Format, true, true>(high));
      if constexpr (Format::kBits == 8) return _mm256_or_si256(codes, signs);
      return _mm256_or_si256(codes, _mm256_srli_epi16(signs, 8 - Format::kBits));
    };
    if constexpr (kNumbers && kType == DType::kF8E4M3) return with_signs(e4m3{});
    if constexpr (kNumbers && kType == DType::kF8E5M2) return with_signs(e5m2{});
    if constexpr (kNumbers && kType == DType::kF4E2M1) return with_signs(e2m1x2{});
    return pack_bytes(narrow_codes<kType, kNumbers>(low), narrow_codes<kType, kNumbers>(high));
  }
}
template <int kCount>
TILEWRIGHT_INLINE bool has_nan(const F32x16* x) {
  __m256 nan = _mm256_cmp_ps(x[0].lo.v, x[0].hi.v, _CMP_UNORD_Q);  // of either
  unroll<kCount - 1>([&](auto i) __attribute__((always_inline)) {
    nan = _mm256_or_ps(nan, _mm256_cmp_ps(x[i + 1].lo.v, x[i + 1].hi.v, _CMP_UNORD_Q));
  });
  return _mm256_movemask_ps(nan) != 0;
}

// Values of a line as its 64 bytes.
template <DType kType, bool kNumbers>
TILEWRIGHT_INLINE Line join_line(const F32x16* x) {
  if constexpr (kType == DType::kF32) {
    return {{_mm256_castps_si256(x[0].lo.v), _mm256_castps_si256(x[0].hi.v)}};
  } else if constexpr (kType == DType::kBf16) {
    if (__builtin_expect(has_nan<2>(x), 0)) return {{join_words(narrow_bf16(x[0])), join_words(narrow_bf16(x[1]))}};
    return {{join_words(shift_right<16>(round_number_to_bf16(x[0]))),
             join_words(shift_right<16>(round_number_to_bf16(x[1])))}};
  } else if constexpr (kType == DType::kF16) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const auto halves = [](F32x16 v) __attribute__((always_inline)) {
      return _mm256_set_m128i(_mm256_cvtps_ph(v.hi.v, kNearest), _mm256_cvtps_ph(v.lo.v, kNearest));
    };
    return {{halves(x[0]), halves(x[1])}};
  } else {
    constexpr int kCount = 32 / dtype_bits(kType);
    if constexpr (!kNumbers && kType != DType::kI8) {
      if (__builtin_expect(!has_nan<kCount>(x), 1)) return join_line<kType, true>(x);
    }
    if constexpr (kCount == 4) {
      return {{ordered(pack_codes<kType, kNumbers>(x[0], x[1])), ordered(pack_codes<kType, kNumbers>(x[2], x[3]))}};
    } else {
      const auto pairs = [x](int from) __attribute__((always_inline)) {
        const __m256i codes = ordered(pack_codes<kType, kNumbers>(x[from], x[from + 1]));
        return _mm256_and_si256(_mm256_or_si256(codes, _mm256_srli_epi16(codes, 4)), _mm256_set1_epi16(0xFF));
      };
      const auto half = [&](int from) __attribute__((always_inline)) {
        return _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs(from), pairs(from + 2)), 0xD8);
      };
      return {{half(0), half(4)}};
    }
  }
}
#endif

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
