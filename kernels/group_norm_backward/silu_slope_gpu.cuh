// SPDX-License-Identifier: MIT
// The slope of silu. One source for NVIDIA and AMD.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"

namespace tilewright {

// s (1 + y (1 - s)) with s = 1 / (1 + exp(-y)): where s vanishes, so does the slope. activation_slope() keeps the digits of 1 - s
// where s is near 1, by more instructions; the slope itself is near 1 there, so that few of them count.
__device__ __forceinline__ float silu_slope(float y) {
  const float s = reciprocal_approx(__fadd_rn(1.0f, exp2_approx(__fmul_rn(y, -1.44269504f))));
  return __fmul_rn(s, __fmaf_rn(y, __fadd_rn(1.0f, -s), 1.0f));
}

}  // namespace tilewright
