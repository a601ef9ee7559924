// SPDX-License-Identifier: MIT
// Block scales of A and B: what kernels take beside GemmArgs. Freestanding: host and kernels share it.
//
//   sum_k (A[b,m,k] * scale_a[b, m / outer_a, k / k_a]) * ((B[b,k,n] - zero_b) * scale_b[b, k / k_b, n / outer_b])
//
// Both stand inside the sum: alpha and everything after it is the epilogue's, whose own scales are absent then.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

// Which values share a scale.
inline constexpr int kScaleOuters[] = {1, 128};           // rows of A or columns of B
inline constexpr int kScaleDepths[] = {16, 32, 64, 128};  // values along K; the last group of K may be short

// The scales of one operand. Strides count scales, from one group to the next one.
struct GemmBlockScale {
  const void* data;  // null = none
  int64 stride_batch, stride_outer, stride_k;
  int outer, k;  // one of kScaleOuters, one of kScaleDepths
  DType dtype;   // f32, f16, bf16, e8m0 or e4m3; of zero points: i8, i4, u4, f32, f16 or bf16
};

struct GemmScaleArgs {
  GemmBlockScale a, b;
};

// The argument struct of the kernels that are typed at run time.
struct GemmScaledArgs {
  GemmArgs gemm;
  GemmScaleArgs scale;
  GemmBlockScale zero_b;  // of the groups of scale.b; null = 0
};

}  // namespace tilewright
