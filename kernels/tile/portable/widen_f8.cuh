// SPDX-License-Identifier: MIT
// Four 8-bit floats (OCP) as two pairs of f16, exactly: f16 has the exponents of both types. NaN stays NaN. sm_89 and later
// have an instruction, which is also how their mma.sync takes 8-bit floats; before, a few integer operations do it.
#pragma once

#include "tile/common/dtype.hpp"

namespace tilewright {

struct F16Pairs {
  unsigned low, high;  // elements 0 and 1, 2 and 3
};

// An e5m2 is the upper half of an f16.
__device__ __forceinline__ F16Pairs widen_e5m2(unsigned word) {
  return {__byte_perm(word, 0, 0x1404), __byte_perm(word, 0, 0x3424)};
}

// Exponent and mantissa one bit further down, and the bias of 15 in place of 7 by a multiplication, which takes subnormals
// along. What has all ones would be 480: its exponent is filled.
__device__ __forceinline__ unsigned widen_e4m3_pair(unsigned upper_bytes) {
  const unsigned magnitude = (upper_bytes & 0x7F007F00u) >> 1, sign = upper_bytes & 0x80008000u;
  const unsigned nan = (magnitude + 0x00800080u) & 0x40004000u;
  unsigned scaled;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(scaled) : "r"(sign | magnitude), "r"(0x5C005C00u));  // 2^8
  return scaled | nan | (nan - (nan >> 5));
}
__device__ __forceinline__ F16Pairs widen_e4m3_by_bits(unsigned word) {
  const F16Pairs bytes = widen_e5m2(word);
  return {widen_e4m3_pair(bytes.low), widen_e4m3_pair(bytes.high)};
}

__device__ __forceinline__ F16Pairs widen_e4m3(unsigned word) {
#if __CUDA_ARCH__ >= 890
  F16Pairs pairs;
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.rn.f16x2.e4m3x2 %0, l;\ncvt.rn.f16x2.e4m3x2 %1, h;\n}"
      : "=r"(pairs.low), "=r"(pairs.high)
      : "r"(word));
  return pairs;
#else
  return widen_e4m3_by_bits(word);
#endif
}

template <DType kType>
__device__ __forceinline__ F16Pairs widen_f8(unsigned word) {
  static_assert(is_ocp_f8(kType));
  if constexpr (kType == DType::kF8E4M3) return widen_e4m3(word);
  return widen_e5m2(word);
}

}  // namespace tilewright
