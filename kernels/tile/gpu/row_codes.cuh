// SPDX-License-Identifier: MIT
// Rows of codes as values, exactly, and the scales that they go with: what numeric.hpp's widen() gives, 8 at a time. One source for
// NVIDIA and AMD.
#pragma once

#include "tile/gpu/row.cuh"

namespace tilewright {

// Eight codes as they lie: two words, or of 4 bits the first.
struct CodeWords {
  unsigned word[2];
};
template <bool kWhole>
__device__ __forceinline__ void load_codes(const char* row, int bits, long long n, int count, CodeWords& to) {
  to.word[0] = to.word[1] = 0;
  const char* const from = row + n * bits / 8;
  if (at_once<kWhole>(from, count, static_cast<unsigned>(bits))) {
    if (bits == 4) {
      to.word[0] = *reinterpret_cast<const unsigned*>(from);
    } else {
      const auto both = *reinterpret_cast<const unsigned long long*>(from);
      to.word[0] = static_cast<unsigned>(both), to.word[1] = static_cast<unsigned>(both >> 32);
    }
    return;
  }
  if constexpr (kWhole) return;
  const int bytes = (anew(count) * bits + 7) / 8;
  for_elements([&](int i) {
    if (i < bytes) to.word[i / 4] |= static_cast<unsigned>(static_cast<unsigned char>(from[i])) << (8 * (i % 4));
  });
}

// A code at the top of a word. Exponent and mantissa move to f32's place, and a product makes up for the other bias: exact,
// subnormals too.
template <class Format>
__device__ __forceinline__ float widen_top_code(unsigned top) {
  constexpr unsigned kMagnitude = Format::kMagnitude << Format::kShift;
  const auto moved = static_cast<unsigned>(static_cast<int>(top) >> (32 - Format::kBits - Format::kShift));
  const unsigned magnitude = moved & kMagnitude, code = moved & (kMagnitude | 0x80000000u);
  const float value = __fmul_rn(__builtin_bit_cast(float, code),
                                __builtin_bit_cast(float, static_cast<unsigned>(127 + Format::kRebias) << 23));
  if constexpr (Format::kHasInfinity) {
    const bool special = magnitude >= Format::kTopExponent << Format::kShift;
    return special ? __builtin_bit_cast(float, code | 0x7F800000u) : value;
  }
  constexpr float kNaN = __builtin_bit_cast(float, 0x7FC00000u);
  if constexpr (Format::is_nan(Format::kMagnitude)) return magnitude == kMagnitude ? kNaN : value;
  if constexpr (Format::is_nan(Format::kSign)) return code == 0x80000000u ? kNaN : value;
  return value;
}
template <class Format>
__device__ __forceinline__ void widen_float_codes(const CodeWords& codes, Piece& to) {
  for_elements([&](int i) {
    const unsigned word = codes.word[Format::kBits == 8 ? i / 4 : 0];
    const int last = Format::kBits == 8 ? i % 4 * 8 + 8 : i * 4 + 4;
    to.v[i] = widen_top_code<Format>(word << (32 - last));
  });
}
__device__ __forceinline__ void widen_codes(DType dtype, const CodeWords& codes, Piece& to) {
  switch (dtype) {
    case DType::kF8E4M3: return widen_float_codes<e4m3::Format>(codes, to);
    case DType::kF8E5M2: return widen_float_codes<e5m2::Format>(codes, to);
    case DType::kF8E4M3Fnuz: return widen_float_codes<e4m3fnuz::Format>(codes, to);
    case DType::kF8E5M2Fnuz: return widen_float_codes<e5m2fnuz::Format>(codes, to);
    case DType::kF4E2M1: return widen_float_codes<e2m1x2::Format>(codes, to);
    default:
      return for_elements(
          [&](int i) { to.v[i] = static_cast<float>(static_cast<int>(codes.word[i / 4] << (24 - i % 4 * 8)) >> 24); });
  }
}

// A scale that is read.
__device__ __forceinline__ float load_scale(const QuantisedScales& scales, long long at) {
  if (scales.dtype == DType::kE8M0) return widen(e8m0{static_cast<const unsigned char*>(scales.data)[at]});
  if (scales.dtype == DType::kF8E4M3) {
    return __fmul_rn(widen(e4m3{static_cast<const unsigned char*>(scales.data)[at]}), of_tensor(scales));
  }
  return static_cast<const float*>(scales.data)[at];
}

}  // namespace tilewright
