// SPDX-License-Identifier: MIT
// Floats as whole numbers: a block of them as multiples of one power of two, in three signed digits of base 256, so that
// vpdpbusd multiplies them by bytes. Exact, or refused.
#pragma once

#include "tile/cpu/dot.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kDigits = 3;

// x = whole * the result, |whole| < 2^22; 0 when values lie too far apart for that, are no numbers, or when their sums
// times the power could leave f32's range.
template <int kCount>
inline float whole_multiples(const float (&x)[kCount], int (&whole)[kCount]) {
  unsigned top = 0;
  for (int i = 0; i < kCount; ++i) {
    const unsigned magnitude = __builtin_bit_cast(unsigned, x[i]) & 0x7FFFFFFF;
    top = magnitude > top ? magnitude : top;
  }
  const int exponent = top == 0 ? 0 : static_cast<int>(top >> 23) - 127;
  constexpr int kReach = 90;
  if (exponent < -kReach || exponent > kReach) return 0;
  const auto power = [](int n) { return __builtin_bit_cast(float, static_cast<unsigned>(n + 127) << 23); };
  const float times = power(21 - exponent);
  int lost = 0;
  for (int i = 0; i < kCount; ++i) {
    const float y = x[i] * times;
    whole[i] = static_cast<int>(y);
    lost |= static_cast<float>(whole[i]) != y ? 1 : 0;
  }
  return lost != 0 ? 0 : power(exponent - 21);
}

// Takes the lowest digit off each: in -128 to 127, the rest a multiple of 256, which is divided by it.
template <int kCount>
inline void take_digit(int (&whole)[kCount], signed char (&digit)[kCount]) {
  for (int i = 0; i < kCount; ++i) {
    digit[i] = static_cast<signed char>(whole[i]);
    whole[i] = (whole[i] - digit[i]) >> 8;
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
