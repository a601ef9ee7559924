// SPDX-License-Identifier: MIT
// Scalar arithmetic by single instructions of sm_80 and later, with what each of them errs (u = 2^-24).
#pragma once

namespace tilewright {

// 2^x, relative error below 4 u; zero below 2^-126, infinity from 2^128 on.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The logarithm of 2, within 2^-22, or 2 u of results beyond 1; of a subnormal x, minus infinity.
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 1 / x, relative error below 2 u; 0 for infinity, and where the result is subnormal. A subnormal x counts as 0.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The larger and the smaller one; NaN if one of them is.
__device__ __forceinline__ float at_least(float x, float lower) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(lower));
  return y;
}
__device__ __forceinline__ float at_most(float x, float upper) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(upper));
  return y;
}
// No less than one, and no more than the other; of NaN, the lower one.
__device__ __forceinline__ float number_between(float x, float lower, float upper) {
  float y;
  asm("{.reg .f32 t; max.f32 t, %1, %2; min.f32 %0, t, %3;}" : "=f"(y) : "f"(x), "f"(lower), "f"(upper));
  return y;
}
// The sum, but no less than 0 and no more than 1; 0 for NaN.
__device__ __forceinline__ float saturated_sum(float x, float y) {
  float sum;
  asm("add.rn.sat.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
  return sum;
}

// Rounded once.
__device__ __forceinline__ float square_root(float x) { return __fsqrt_rn(x); }
// 1 / sqrt(x), relative error below 2 u; infinity for 0.
__device__ __forceinline__ float inverse_root(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  const float error = __fmaf_rn(-__fmul_rn(x, y), y, 1.0f);  // no number for 0 and infinity
  return error == error ? __fmaf_rn(__fmul_rn(y, 0.5f), error, y) : y;
}
// 1 / x of a number that is_near_one (quantise.hpp): what a division compiles to, without its other cases.
__device__ __forceinline__ float reciprocal_near_one(float x) {
  const float first = reciprocal_approx(x);
  return __fmaf_rn(first, __fmaf_rn(first, -x, 1.0f), first);
}

}  // namespace tilewright
