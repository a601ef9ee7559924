// SPDX-License-Identifier: MIT
// Arithmetic on a register's two halves, bf16 or f16.
#pragma once

#include "tile/common/dtype.hpp"

namespace tilewright {

// a * b + c, rounded once. One instruction from sm_80 on; alone, products and sums of bf16 have one from sm_90 on.
template <DType kType>
__device__ __forceinline__ unsigned fma_pairs(unsigned a, unsigned b, unsigned c) {
  unsigned sum;
  if constexpr (kType == DType::kBf16) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  }
  return sum;
}

// The larger halves; of NaN and a number the number.
template <DType kType>
__device__ __forceinline__ unsigned larger_pairs(unsigned a, unsigned b) {
  unsigned larger;
  if constexpr (kType == DType::kBf16) {
    asm("max.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  } else {
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  }
  return larger;
}
template <DType kType>
__device__ __forceinline__ unsigned smaller_pairs(unsigned a, unsigned b) {
  unsigned smaller;
  if constexpr (kType == DType::kBf16) {
    asm("min.bf16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
  } else {
    asm("min.f16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
  }
  return smaller;
}
// The larger magnitudes, in halves whose sign says nothing; NaN where one is.
template <DType kType>
__device__ __forceinline__ unsigned larger_magnitudes(unsigned a, unsigned b) {
  unsigned larger;
#if __CUDA_ARCH__ >= 860
  if constexpr (kType == DType::kBf16) {
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  }
#else
  a &= 0x7FFF7FFFu, b &= 0x7FFF7FFFu;
  if constexpr (kType == DType::kBf16) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  }
#endif
  return larger;
}

// All bits of each half where a is at least b; none where one is NaN.
template <DType kType>
__device__ __forceinline__ unsigned at_least_pairs(unsigned a, unsigned b) {
  unsigned holds;
  if constexpr (kType == DType::kF16) {
    asm("set.ge.u32.f16x2 %0, %1, %2;" : "=r"(holds) : "r"(a), "r"(b));
#if __CUDA_ARCH__ >= 900
  } else {
    asm("set.ge.u32.bf16x2 %0, %1, %2;" : "=r"(holds) : "r"(a), "r"(b));
#else
  } else {
    const auto high = [](unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); };
    holds = (high(a << 16) >= high(b << 16) ? 0xFFFFu : 0) | (high(a) >= high(b) ? 0xFFFF0000u : 0);
#endif
  }
  return holds;
}

}  // namespace tilewright
