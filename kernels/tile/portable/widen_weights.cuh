// SPDX-License-Identifier: MIT
// Narrow weights to pairs of bf16 or f16 in registers: the float half of tile/common/narrow_weights.hpp. All exact.
#pragma once

#include "tile/common/narrow_weights.hpp"
#include "tile/portable/convert.cuh"
#include "tile/portable/pair_math.cuh"
#include "tile/portable/widen_f8.cuh"

namespace tilewright {

template <DType kType>
__device__ __forceinline__ unsigned add_pairs(unsigned a, unsigned b) {
  return fma_pairs<kType>(a, kType == DType::kBf16 ? 0x3F803F80u : 0x3C003C00u, b);
}

// What the values of a pair still lack: a factor 2^shift, which sums take at their end.
template <DType kWeight, DType kTo>
constexpr int widened_shift() {
  if (kWeight == DType::kF4E2M1) return kTo == DType::kF16 ? kE2M1F16Shift : 0;
  return is_nibble_integer(kWeight) && kTo == DType::kBf16 ? kNibbleBf16Shift : 0;
}

// What widen_pair takes beside a word, for pairs 0 and 2, and for 1 and 3: what is added to integers, or the factor of e2m1.
struct WidenOperands {
  unsigned even, odd;
};
template <DType kWeight, DType kTo>
__device__ __forceinline__ constexpr WidenOperands widen_operands() {
  constexpr bool kBf16 = kTo == DType::kBf16;
  constexpr unsigned kFactor = (kE2M1Bf16Shift + 127) * 0x00800080u;  // 2^126, of nothing else
  if constexpr (kWeight == DType::kF4E2M1) return {kFactor, kFactor};
  if constexpr (kWeight == DType::kI8 && !kBf16) return {0xE480E480u, 0xE480E480u};  // -1152
  if constexpr (kWeight == DType::kI4 && kBf16) return {0xBE00BE00u, 0xBE00BE00u};   // -8 * 2^-6
  if constexpr (kWeight == DType::kI4) return {0xE408E408u, 0xD480D480u};            // -1032, -72
  if constexpr (kWeight == DType::kU4 && !kBf16) return {0xE400E400u, 0xD400D400u};  // -1024, -64
  return {0x80008000u, 0x80008000u};
}
// The same for integers less `zero`.
template <DType kWeight, DType kTo>
__device__ __forceinline__ WidenOperands zeroed_operands(int zero) {
  if constexpr (kWeight == DType::kI8 && kTo == DType::kF16) {
    // Whole numbers count on in the last bit of a mantissa.
    const unsigned sum = widen_operands<kWeight, kTo>().even + static_cast<unsigned>(zero) * 0x00010001u;
    return {sum, sum};
  }
  const auto less = static_cast<float>(zero + (kWeight == DType::kI4 ? 8 : 0));
  if constexpr (kTo == DType::kF16) {
    return {pack_f16(-1024.0f - less, -1024.0f - less), pack_f16(-64.0f - less, -64.0f - less)};
  }
  const float scaled = less * (-1.0f / (1 << widened_shift<kWeight, kTo>()));
  const unsigned both = pack_bf16(scaled, scaled);
  return {both, both};
}

// Pair kPair of a word.
template <DType kWeight, DType kTo, int kPair, bool kZeroed>
__device__ __forceinline__ unsigned widen_pair(unsigned word, const WidenOperands& by) {
  [[maybe_unused]] const unsigned operand = kPair % 2 == 0 ? by.even : by.odd;
  if constexpr (kWeight == DType::kF4E2M1 && kTo == DType::kBf16) {
    return fma_pairs<kTo>(e2m1_as_bf16<kPair>(word), operand, 0x80008000u);
  } else if constexpr (kWeight == DType::kF4E2M1) {
    return e2m1_as_f16<kPair>(word);
  } else if constexpr (is_ocp_f8(kWeight)) {
    const F16Pairs both = widen_f8<kWeight>(word);
    const unsigned pair = kPair == 0 ? both.low : both.high;
    if constexpr (kTo == DType::kF16) return pair;
    return pack_bf16(widen_f16(pair & 0xFFFFu), widen_f16(pair >> 16));
  } else if constexpr (kWeight == DType::kI8 && kTo == DType::kBf16) {
    const unsigned pair = add_pairs<kTo>(i8_low_as_bf16<kPair>(word), i8_high_as_bf16<kPair>(word));
    return kZeroed ? add_pairs<kTo>(pair, operand) : pair;
  } else if constexpr (kWeight == DType::kI8) {
    return add_pairs<kTo>(i8_as_f16<kPair>(word), operand);
  } else {
    constexpr bool kOdd = kPair % 2 == 1;
    constexpr unsigned kFactor = kTo == DType::kBf16 ? (kOdd ? 0x7D007D00u : 0x7F007F00u)   // 2^123, 2^127
                                                     : (kOdd ? 0x2C002C00u : 0x3C003C00u);  // 1 / 16, 1
    return fma_pairs<kTo>(nibbles_as_steps<kWeight, kTo, kPair>(word), kFactor, operand);
  }
}

}  // namespace tilewright
