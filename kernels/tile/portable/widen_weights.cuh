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

// What the values of a pair still lack: a factor 2^shift, which scales take along.
template <DType kWeight, DType kTo>
constexpr int widened_shift() {
  return kWeight == DType::kF4E2M1 && kTo == DType::kF16 ? kE2M1F16Shift : 0;
}
// -(what masks added to integers), as a pair of kTo. 0 for types that have no offset.
template <DType kWeight, DType kTo>
constexpr unsigned widened_offset() {
  constexpr bool kBf16 = kTo == DType::kBf16;
  if constexpr (kWeight == DType::kU4) return kBf16 ? 0xC300C300u : 0xE400E400u;  // -128, -1024
  if constexpr (kWeight == DType::kI4) return kBf16 ? 0xC308C308u : 0xE408E408u;  // -136, -1032
  if constexpr (kWeight == DType::kI8 && !kBf16) return 0xE480E480u;              // -1152
  return 0;
}

// What widen_pair takes beside a word. e2m1 as bf16: a pair of factors 2^126, here of nothing else. Integers: what is added.
template <DType kWeight, DType kTo>
constexpr unsigned widened_operand() {
  if constexpr (kWeight != DType::kF4E2M1) return widened_offset<kWeight, kTo>();
  return (kE2M1Bf16Shift + 127) << 7 | (kE2M1Bf16Shift + 127) << 23;
}
// The same for integers less `zero`: whole numbers count on in the last bit of a mantissa.
template <DType kWeight, DType kTo>
__device__ __forceinline__ unsigned zeroed_operand(int zero) {
  if constexpr (widened_offset<kWeight, kTo>() != 0) {
    return widened_offset<kWeight, kTo>() + static_cast<unsigned>(zero) * 0x00010001u;
  }
  return pack_bf16(static_cast<float>(-zero), static_cast<float>(-zero));
}

// Pair kPair of a word.
template <DType kWeight, DType kTo, int kPair, bool kZeroed>
__device__ __forceinline__ unsigned widen_pair(unsigned word, unsigned operand) {
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
    return add_pairs<kTo>(nibbles_as_offset<kWeight, kTo, kPair>(word), operand);
  }
}

}  // namespace tilewright
