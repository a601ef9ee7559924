// SPDX-License-Identifier: MIT
// Elements of matrix operands as they stand in registers: codes of 4 to 64 bits, and their exact values as float.
#pragma once

#include <cstdint>

#include "tile/emu/matrix/table.hpp"

namespace tilewright::emu {

// MX formats of 6 bits; the others stand in tile/common/numeric.hpp.
struct e2m3 {
  using Format = FloatFormat<2, 3, 1, FloatFlavour::kFinite>;
  unsigned char bits;
};
struct e3m2 {
  using Format = FloatFormat<3, 2, 3, FloatFlavour::kFinite>;
  unsigned char bits;
};

// Values of all codes of a format of up to 8 bits.
template <class Format>
struct ValueTable {
  float values[1 << Format::kBits];
  constexpr ValueTable() : values() {
    for (unsigned code = 0; code < 1u << Format::kBits; ++code) values[code] = Format::widen(code);
  }
};
template <class Format>
inline constexpr ValueTable<Format> kValues{};

// Code `e` of a lane's registers, which lie as the hardware counts bits: little-endian, without gaps between codes.
template <int kBits>
TILEWRIGHT_MATRIX_INLINE inline std::uint32_t code_at(const unsigned char* registers, int e) {
  static_assert(kBits == 4 || kBits == 6 || kBits == 8 || kBits == 16 || kBits == 32);
  if constexpr (kBits == 32) {
    std::uint32_t code;
    __builtin_memcpy(&code, registers + 4 * e, 4);
    return code;
  } else if constexpr (kBits == 16) {
    std::uint16_t code;
    __builtin_memcpy(&code, registers + 2 * e, 2);
    return code;
  } else if constexpr (kBits == 8) {
    return registers[e];
  } else {
    const int bit = e * kBits;
    std::uint32_t window = registers[bit / 8];
    if constexpr (kBits == 6) {
      if (bit % 8 > 2) window |= static_cast<std::uint32_t>(registers[bit / 8 + 1]) << 8;
    }
    return window >> bit % 8 & ((1u << kBits) - 1);
  }
}

// A 16-bit factor with its subnormals: CDNA2 takes them for zero (AMD's MIOpen, "MI200 matrix fused multiply-add (MFMA) behavior
// specifics"; so it does with subnormal sums, which is left out here: bounds allow for either).
template <MatrixTarget kTarget>
constexpr std::uint32_t flushed(std::uint32_t code, std::uint32_t exponent) {
  return kTarget == MatrixTarget::kGfx90a && (code & exponent) == 0 ? code & 0x8000u : code;
}

// The element's value. Integers are exact too; `is_signed` is read for iu8 and iu4 alone.
template <MatrixElement kElement, MatrixTarget kTarget>
TILEWRIGHT_MATRIX_INLINE inline float value_at(const unsigned char* registers, int e, bool is_signed) {
  constexpr bool fnuz = kTarget == MatrixTarget::kGfx942;
  const std::uint32_t code = code_at<bits_of(kElement)>(registers, e);
  if constexpr (kElement == MatrixElement::kF32) {
    return __builtin_bit_cast(float, code);
  } else if constexpr (kElement == MatrixElement::kXf32) {
    // 10 bits of mantissa; the manual does not say how the rest is dropped, here it is cut off (NaN stays NaN).
    const bool is_nan = (code & 0x7FFFFFFFu) > 0x7F800000u;
    return __builtin_bit_cast(float, (code & 0xFFFFE000u) | (is_nan ? 0x00400000u : 0u));
  } else if constexpr (kElement == MatrixElement::kBf16) {
    return __builtin_bit_cast(float, flushed<kTarget>(code, 0x7F80u) << 16);
  } else if constexpr (kElement == MatrixElement::kF16) {
    return f16::Format::widen(flushed<kTarget>(code, 0x7C00u));
  } else if constexpr (kElement == MatrixElement::kF8) {
    if constexpr (fnuz) return kValues<e4m3fnuz::Format>.values[code];
    return kValues<e4m3::Format>.values[code];
  } else if constexpr (kElement == MatrixElement::kB8) {
    if constexpr (fnuz) return kValues<e5m2fnuz::Format>.values[code];
    return kValues<e5m2::Format>.values[code];
  } else {
    static_assert(kElement == MatrixElement::kI8 || kElement == MatrixElement::kIu8 || kElement == MatrixElement::kIu4);
    constexpr int kHalf = kElement == MatrixElement::kIu4 ? 8 : 128;
    const int value = static_cast<int>(code);
    return static_cast<float>(is_signed ? (value ^ kHalf) - kHalf : value);
  }
}

}  // namespace tilewright::emu
