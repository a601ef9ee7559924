// SPDX-License-Identifier: MIT
// Random operands for the probes of arithmetic, as models have them: zeros and patterns draw less power and run faster.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright {

constexpr unsigned scramble(unsigned x) {
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}
// About normal: the sum of four uniform bytes.
constexpr float near_normal(unsigned index) {
  const unsigned bits = scramble(index);
  const unsigned sum = (bits & 0xFF) + (bits >> 8 & 0xFF) + (bits >> 16 & 0xFF) + (bits >> 24);
  return (static_cast<float>(sum) - 510.0f) / 148.0f;
}

// Four bytes of elements: floats about normal, integers uniform.
template <DType kType>
constexpr unsigned random_word(unsigned index) {
  if constexpr (kType == DType::kI8) {
    return scramble(index);
  } else {
    constexpr int kBits = dtype_bits(kType);
    unsigned word = 0;
    for (int i = 0; i < 32 / kBits; ++i) {
      const float value = near_normal(index * (32 / kBits) + i);
      if constexpr (kType == DType::kBf16) {
        word |= static_cast<unsigned>(narrow<bf16>(value).bits) << i * kBits;
      } else {
        static_assert(kType == DType::kF8E4M3);
        word |= static_cast<unsigned>(narrow<e4m3>(value).bits) << i * kBits;
      }
    }
    return word;
  }
}

}  // namespace tilewright
