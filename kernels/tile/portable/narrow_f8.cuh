// SPDX-License-Identifier: MIT
// Four values as 8-bit floats, in one word, the first in the lowest byte: by the instructions of sm_89 and later, where these know
// the format, which saturate as numeric.hpp does.
#pragma once

#include "tile/common/quantise.hpp"

namespace tilewright {

template <class Format>
struct F8Instruction {
  static constexpr bool kKnown = false;
};

#if __CUDA_ARCH__ >= 890
template <>
struct F8Instruction<e4m3::Format> {
  static constexpr bool kKnown = true;
  static __device__ __forceinline__ unsigned pair(float low, float high) {
    unsigned short bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
    return bits;
  }
};
template <>
struct F8Instruction<e5m2::Format> {
  static constexpr bool kKnown = true;
  static __device__ __forceinline__ unsigned pair(float low, float high) {
    unsigned short bits;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
    return bits;
  }
};
#endif

template <class Format>
__device__ __forceinline__ unsigned narrow_f8x4(float a, float b, float c, float d) {
  if constexpr (F8Instruction<Format>::kKnown) {
    return F8Instruction<Format>::pair(a, b) | F8Instruction<Format>::pair(c, d) << 16;
  } else {
    return narrow_many<Format>(a) | narrow_many<Format>(b) << 8 | narrow_many<Format>(c) << 16 |
           narrow_many<Format>(d) << 24;
  }
}

}  // namespace tilewright
