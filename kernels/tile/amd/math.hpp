// SPDX-License-Identifier: MIT
// Scalar arithmetic by single instructions of AMD GPUs, with what each of them errs (u = 2^-24). Source: AMD CDNA3 ISA
// reference, V_EXP_F32 and V_RCP_F32 (1 ulp).
#pragma once

#include "tile/amd/words.hpp"

namespace tilewright {

// 2^x, relative error below 4 u; zero below 2^-126, infinity from 2^128 on.
__device__ __forceinline__ float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
// The logarithm of 2, within 2^-22, or 2 u of results beyond 1; of a subnormal x, minus infinity.
__device__ __forceinline__ float log2_approx(float x) { return __builtin_amdgcn_logf(x); }
// 1 / x, relative error below 2 u; 0 for infinity.
__device__ __forceinline__ float reciprocal_approx(float x) { return __builtin_amdgcn_rcpf(x); }

// The larger and the smaller one; NaN if one of them is.
__device__ __forceinline__ float at_least(float x, float lower) { return x > lower || x != x ? x : lower; }
__device__ __forceinline__ float at_most(float x, float upper) { return x < upper || x != x ? x : upper; }
// No less than one, and no more than the other; of NaN, the lower one.
__device__ __forceinline__ float number_between(float x, float lower, float upper) {
  return __builtin_amdgcn_fmed3f(x, lower, upper);
}
// The sum, but no less than 0 and no more than 1.
__device__ __forceinline__ float saturated_sum(float x, float y) { return __builtin_amdgcn_fmed3f(x + y, 0, 1); }

// Rounded once.
__device__ __forceinline__ float square_root(float x) { return __builtin_sqrtf(x); }
// 1 / sqrt(x), relative error below 2 u; infinity for 0.
__device__ __forceinline__ float inverse_root(float x) { return 1 / square_root(x); }
// 1 / x of a number that is_near_one (quantise.hpp).
__device__ __forceinline__ float reciprocal_near_one(float x) { return 1 / x; }

}  // namespace tilewright
