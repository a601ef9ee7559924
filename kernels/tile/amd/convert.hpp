// SPDX-License-Identifier: MIT
// Conversions between f32 and the 16-bit floats on AMD GPUs, to nearest, ties to even, overflow to infinity. Every NaN
// becomes the canonical one of tile/portable/convert.cuh, 0x7FFF.
#pragma once

#include "tile/amd/words.hpp"
#include "tile/common/numeric.hpp"

namespace tilewright {

__device__ __forceinline__ unsigned short narrow_bf16(float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  const unsigned rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  return static_cast<unsigned short>(value != value ? 0x7FFFu : rounded);
}
__device__ __forceinline__ unsigned short narrow_f16(float value) {
  const auto bits = __builtin_bit_cast(unsigned short, static_cast<_Float16>(value));
  return value != value ? static_cast<unsigned short>(0x7FFF) : bits;
}
// Two values in one word, `low` in the lower half.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  return narrow_bf16(low) | static_cast<unsigned>(narrow_bf16(high)) << 16;
}
__device__ __forceinline__ unsigned pack_f16(float low, float high) {
  return narrow_f16(low) | static_cast<unsigned>(narrow_f16(high)) << 16;
}

// Exact. A bf16 is the upper half of an f32.
__device__ __forceinline__ float widen_bf16(unsigned bits) { return __uint_as_float(bits << 16); }
__device__ __forceinline__ float widen_bf16_high(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }
__device__ __forceinline__ float widen_f16(unsigned bits) {
  return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<unsigned short>(bits)));
}

}  // namespace tilewright
