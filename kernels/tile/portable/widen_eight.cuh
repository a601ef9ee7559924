// SPDX-License-Identifier: MIT
// Eight narrow weights at a time to four pairs of bf16 or f16, in the order of tile/common/narrow_weights.hpp, in as few
// instructions as there are: one word of 4-bit types, two of 8 bits. What comes out lacks a factor 2^kShift. All exact.
#pragma once

#include "tile/portable/widen_weights.cuh"

namespace tilewright {

// What pairs 0 and 2, and pairs 1 and 3, take beside the weights: what is added, or a factor.
struct WidenOperands {
  unsigned even, odd;
};

template <DType kWeight, DType kTo>
struct WidenEight {
  static constexpr bool kNibbles = kWeight == DType::kI4 || kWeight == DType::kU4, kBf16 = kTo == DType::kBf16;
  static constexpr int kWords = dtype_bits(kWeight) == 4 ? 1 : 2;
  static constexpr int kShift = kNibbles && kBf16 ? kNibbleBf16Shift : widened_shift<kWeight, kTo>();

  __device__ __forceinline__ static WidenOperands plain() {
    if constexpr (kNibbles) return zeroed(0);
    constexpr unsigned kOperand = widened_operand<kWeight, kTo>();
    return {kOperand, kOperand};
  }
  // Of integers: less `zero`.
  __device__ __forceinline__ static WidenOperands zeroed(int zero) {
    if constexpr (!kNibbles) {
      const unsigned operand = zeroed_operand<kWeight, kTo>(zero);
      return {operand, operand};
    }
    const auto less = static_cast<float>(zero + (kWeight == DType::kI4 ? 8 : 0));
    if constexpr (kBf16) {
      const float steps = less * (-1.0f / (1 << kNibbleBf16Shift));
      const unsigned both = pack_bf16(steps, steps);
      return {both, both};
    }
    return {pack_f16(-1024.0f - less, -1024.0f - less), pack_f16(-64.0f - less, -64.0f - less)};
  }

  template <bool kZeroed>
  __device__ __forceinline__ static void run(const unsigned* words, const WidenOperands& by, unsigned (&pairs)[4]) {
    if constexpr (kNibbles) {
      pairs[0] = nibbles<0>(words[0], by.even), pairs[1] = nibbles<1>(words[0], by.odd);
      pairs[2] = nibbles<2>(words[0], by.even), pairs[3] = nibbles<3>(words[0], by.odd);
    } else if constexpr (kWords == 1) {
      pairs[0] = widen_pair<kWeight, kTo, 0, kZeroed>(words[0], by.even);
      pairs[1] = widen_pair<kWeight, kTo, 1, kZeroed>(words[0], by.even);
      pairs[2] = widen_pair<kWeight, kTo, 2, kZeroed>(words[0], by.even);
      pairs[3] = widen_pair<kWeight, kTo, 3, kZeroed>(words[0], by.even);
    } else {
      pairs[0] = widen_pair<kWeight, kTo, 0, kZeroed>(words[0], by.even);
      pairs[1] = widen_pair<kWeight, kTo, 1, kZeroed>(words[0], by.even);
      pairs[2] = widen_pair<kWeight, kTo, 0, kZeroed>(words[1], by.even);
      pairs[3] = widen_pair<kWeight, kTo, 1, kZeroed>(words[1], by.even);
    }
  }

 private:
  template <int kPair>
  __device__ __forceinline__ static unsigned nibbles(unsigned word, unsigned less) {
    constexpr bool kOdd = kPair % 2 == 1;
    constexpr unsigned kFactor = kBf16 ? (kOdd ? 0x7D007D00u : 0x7F007F00u)   // 2^123, 2^127
                                       : (kOdd ? 0x2C002C00u : 0x3C003C00u);  // 1 / 16, 1
    return fma_pairs<kTo>(nibbles_as_steps<kWeight, kTo, kPair>(word), kFactor, less);
  }
};

}  // namespace tilewright
