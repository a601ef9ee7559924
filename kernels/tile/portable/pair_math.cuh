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

}  // namespace tilewright
