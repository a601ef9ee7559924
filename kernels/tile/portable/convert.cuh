// SPDX-License-Identifier: MIT
// Conversions between f32 and the 16-bit floats by the instructions of sm_80 and later. They round as numeric.hpp does
// (to nearest, ties to even, overflow to infinity), but every NaN becomes the canonical one, 0x7FFF.
#pragma once

#include "tile/common/numeric.hpp"

namespace tilewright {

// Two values in one word, `low` in the lower half.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ unsigned pack_f16(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ unsigned short narrow_bf16(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ unsigned short narrow_f16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// Exact. A bf16 is the upper half of an f32.
__device__ __forceinline__ float widen_bf16(unsigned bits) { return __uint_as_float(bits << 16); }
__device__ __forceinline__ float widen_bf16_high(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }
__device__ __forceinline__ float widen_f16(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}

}  // namespace tilewright
