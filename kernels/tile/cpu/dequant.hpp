// SPDX-License-Identifier: MIT
// Narrow elements as vectors of f32, or as pairs of bf16 where vdpbf16ps multiplies them. Exact.
//
// Eight 4-bit elements fill a 32-bit word: value j of 16 words is a vector whose lane i is element 8 i + j. Four fill a 16-bit
// one: value j of 32 of these is element 4 w + j. So no element moves between lanes: whoever multiplies by them lays A out so.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/numeric.hpp"
#include "tile/cpu/vec_io.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Compilers would rather read a value again, with every shift of it, than hold it; the ports that read are what is short.
TILEWRIGHT_INLINE I32x16 held(I32x16 words) {
#if TILEWRIGHT_AVX512
  asm("" : "+v"(words.v));
#endif
  return words;
}

constexpr float widen_nibble(DType dtype, unsigned char code) {
  if (dtype == DType::kI4) return widen(i4x2{code}, 0);
  if (dtype == DType::kU4) return widen(u4x2{code}, 0);
  return widen(e2m1x2{code}, 0);
}

// 4-bit elements as bytes without a sign: value * kNibbleUnit + kNibbleOffset.
template <DType kType>
inline constexpr int kNibbleOffset = kType == DType::kI4       ? 8
                                     : kType == DType::kF4E2M1 ? 12
                                                               : 0;
template <DType kType>
inline constexpr int kNibbleUnit = kType == DType::kF4E2M1 ? 2 : 1;

template <DType kType>
struct NibbleTables {
  alignas(64) float floats[16];
  alignas(64) unsigned short words[32];  // bf16; twice, because the fifth bit of an index is another element's
  alignas(64) signed char bytes[64];     // four times: vpshufb looks things up in each 16 bytes
};
template <DType kType>
constexpr NibbleTables<kType> make_nibble_tables() {
  NibbleTables<kType> t{};
  for (unsigned i = 0; i < 32; ++i) {
    const float value = widen_nibble(kType, static_cast<unsigned char>(i & 15));
    if (i < 16) t.floats[i] = value;
    const float byte = value * kNibbleUnit<kType> + kNibbleOffset<kType>;
    for (unsigned j = i & 15; j < 64; j += 16) t.bytes[j] = static_cast<signed char>(byte);
    t.words[i] = static_cast<unsigned short>(__builtin_bit_cast(unsigned, value) >> 16);
  }
  return t;
}
template <DType kType>
inline constexpr NibbleTables<kType> kNibbleTables = make_nibble_tables<kType>();

// get<j>(words), j < 8: f32.
template <DType kType>
class NibbleFloats {
 public:
  static constexpr int kValues = 8;
#if TILEWRIGHT_AVX512
  TILEWRIGHT_INLINE NibbleFloats() : table_(F32x16::load(kNibbleTables<kType>.floats)) {}
  template <int j>
  TILEWRIGHT_INLINE F32x16 get(I32x16 words) const {
    return {_mm512_maskz_permutexvar_ps(kAllLanes, shift_right<4 * j>(words).v, table_.v)};
  }

 private:
  F32x16 table_;
#elif TILEWRIGHT_AVX2
  TILEWRIGHT_INLINE NibbleFloats() : table_(F32x8::load(kNibbleTables<kType>.floats)) {}
  template <int j>
  TILEWRIGHT_INLINE F32x16 get(I32x16 words) const {
    if constexpr (kType == DType::kU4) return to_float(shift_right<4 * j>(words) & I32x16::splat(15));
    if constexpr (kType == DType::kI4) return to_float(shift_right_signed<28>(shift_left<28 - 4 * j>(words)));
    // e2m1: the magnitude of three bits from a table of eight, and the sign above it.
    const I32x16 sign = shift_left<28 - 4 * j>(words) & I32x16::splat(static_cast<int>(0x80000000u));
    const I32x16 at = shift_right<4 * j>(words);
    return as_float(
        as_int(F32x16{{_mm256_permutevar8x32_ps(table_.v, at.lo.v)}, {_mm256_permutevar8x32_ps(table_.v, at.hi.v)}}) |
        sign);
  }

 private:
  F32x8 table_;
#endif
};

// get<j>(words), j < 4: 32 values of bf16.
template <DType kType>
class NibbleWords {
 public:
  static constexpr int kValues = 4;
#if TILEWRIGHT_AVX512
  TILEWRIGHT_INLINE NibbleWords() : table_(I32x16::load(kNibbleTables<kType>.words)) {}
  template <int j>
  TILEWRIGHT_INLINE I32x16 get(I32x16 words) const {
    constexpr __mmask32 kAllWords = 0xFFFFFFFF;
    const __m512i at = j == 0 ? words.v : _mm512_maskz_srli_epi16(kAllWords, words.v, 4 * j);
    return {_mm512_maskz_permutexvar_epi16(kAllWords, at, table_.v)};
  }

 private:
  I32x16 table_;
#endif
};

// even(words): byte b is element 2 b of 64 bytes; odd(words): element 2 b + 1.
template <DType kType>
class NibbleBytes {
 public:
#if TILEWRIGHT_AVX512
  TILEWRIGHT_INLINE NibbleBytes() : table_(I32x16::load(kNibbleTables<kType>.bytes)) {}
  TILEWRIGHT_INLINE I32x16 even(I32x16 words) const {
    const I32x16 low = I32x16::splat(0x0F0F0F0F);
    // i4: -8 to 7 become 0 to 15 when the sign is turned.
    constexpr int kAndXor = 0x6A;
    if constexpr (kType == DType::kI4) {
      return {_mm512_maskz_ternarylogic_epi32(kAllLanes, words.v, low.v, I32x16::splat(0x08080808).v, kAndXor)};
    }
    if constexpr (kType == DType::kU4) return words & low;
    return {_mm512_maskz_shuffle_epi8(~0ull, table_.v, (words & low).v)};
  }
  TILEWRIGHT_INLINE I32x16 odd(I32x16 words) const { return even(shift_right<4>(words)); }

 private:
  I32x16 table_;  // e2m1
#endif
};

// 16 neighbours of i4 or u4, from a whole byte on.
template <DType kType>
TILEWRIGHT_INLINE F32x16 widen_nibbles(const void* p) {
#if TILEWRIGHT_AVX2
  const __m256i places = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
  const auto half = [&](const void* from) {
    return I32x8{_mm256_srlv_epi32(_mm256_set1_epi32(read_as<int>(from)), places)};
  };
#if TILEWRIGHT_AVX512
  const __m512i low = _mm512_castsi256_si512(half(p).v);
  const I32x16 all = {_mm512_maskz_inserti64x4(0xFF, low, half(static_cast<const char*>(p) + 4).v, 1)};
#else
  const I32x16 all = {half(p), half(static_cast<const char*>(p) + 4)};
#endif
  const I32x16 codes = all & I32x16::splat(15);
#else
  alignas(64) int lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = static_cast<const unsigned char*>(p)[i / 2] >> i % 2 * 4 & 15;
  const I32x16 codes = I32x16::load(lanes);
#endif
  if constexpr (kType == DType::kU4) return to_float(codes);
  return to_float((codes ^ I32x16::splat(8)) - I32x16::splat(8));
}

// Lanes 4 g to 4 g + 3 are values[g].
TILEWRIGHT_INLINE F32x16 spread_four(const float* values) {
#if TILEWRIGHT_AVX512
  const __m512i lanes = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  return {_mm512_maskz_permutexvar_ps(kAllLanes, lanes, _mm512_castps128_ps512(_mm_loadu_ps(values)))};
#elif TILEWRIGHT_AVX2
  const auto pair = [](const float* p) {
    return F32x8{_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_broadcast_ss(p)), _mm_broadcast_ss(p + 1), 1)};
  };
  return {pair(values), pair(values + 2)};
#else
  alignas(64) float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = values[i / 4];
  return F32x16::load(lanes);
#endif
}

// Lanes 0 to 7 are values[0], the others values[1].
TILEWRIGHT_INLINE F32x16 spread_two(const float* values) {
#if TILEWRIGHT_AVX512
  return {_mm512_mask_blend_ps(0xFF00, _mm512_set1_ps(values[0]), _mm512_set1_ps(values[1]))};
#else
  alignas(64) float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = values[i / 8];
  return F32x16::load(lanes);
#endif
}

// A float of 8 bits by its magnitude's code, in each lane: exact. One of f32's with the same fields would be subnormal where it is
// (CPUs multiply those slowly), so it gets the smallest normal one's exponent, and what that adds is taken away.
template <class Format>
TILEWRIGHT_INLINE F32x16 widen_magnitude(I32x16 code) {
  constexpr float kSmallest = __builtin_bit_cast(float, (Format::kRebias + 1) << 23);
  const I32x16 fields = shift_left<Format::kShift>(code);
  const F32x16 normal = as_float(fields + I32x16::splat(Format::kRebias << 23));
  const F32x16 small = as_float(fields + I32x16::splat((Format::kRebias + 1) << 23)) - F32x16::splat(kSmallest);
  return select_less(normal, F32x16::splat(kSmallest), small, normal);
}

// Bytes of i8 or an 8-bit float, one a lane with its sign extended.
template <DType kType>
TILEWRIGHT_INLINE F32x16 widen_byte_lanes(I32x16 bytes) {
  if constexpr (kType == DType::kI8) return to_float(bytes);
  const I32x16 sign = bytes & I32x16::splat(static_cast<int>(0x80000000u));
  const I32x16 magnitude = bytes & I32x16::splat(0x7F);
  if constexpr (is_ocp_f8(kType)) {
    const F32x16 value =
        kType == DType::kF8E4M3 ? widen_magnitude<e4m3::Format>(magnitude) : widen_magnitude<e5m2::Format>(magnitude);
    // Codes that are no number: e4m3 0x7F (480), e5m2 0x7C (65536: infinity) and above.
    const F32x16 largest = F32x16::splat(kType == DType::kF8E4M3 ? 448.0f : 57344.0f);
    const F32x16 special = kType == DType::kF8E4M3
                               ? as_float(I32x16::splat(0x7FC00000))
                               : as_float(shift_left<21>(bytes & I32x16::splat(3)) | I32x16::splat(0x7F800000));
    return as_float(as_int(select_less(largest, value, special, value)) | sign);
  } else {
    const F32x16 value = kType == DType::kF8E4M3Fnuz ? widen_magnitude<e4m3fnuz::Format>(magnitude)
                                                     : widen_magnitude<e5m2fnuz::Format>(magnitude);
    // FNUZ: what would be negative zero is the one code that is no number.
    return select_less(to_float(bytes), F32x16::splat(-127.5f), as_float(I32x16::splat(0x7FC00000)),
                       as_float(as_int(value) | sign));
  }
}
// 16 bytes in memory.
template <DType kType>
TILEWRIGHT_INLINE F32x16 widen_bytes(const void* p) {
  return widen_byte_lanes<kType>(I32x16::widen_i8(p));
}

// Codes of e8m0, one a lane: powers of two; 0 is 2^-127, 255 is NaN.
TILEWRIGHT_INLINE F32x16 power_of_code(I32x16 codes) {
  const I32x16 rest = (codes + I32x16::splat(1)) & I32x16::splat(0xFE);
  const F32x16 quiet =
      select_less(to_float(rest), F32x16::splat(1), as_float(I32x16::splat(0x00400000)), as_float(I32x16::splat(0)));
  return as_float(shift_left<23>(codes) | as_int(quiet));
}
// 16 neighbours.
TILEWRIGHT_INLINE F32x16 widen_e8m0(const void* p) { return power_of_code(I32x16::widen_i8(p) & I32x16::splat(0xFF)); }

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
