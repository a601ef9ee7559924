// SPDX-License-Identifier: MIT
// Sums of products of 16 bytes of two rows that a lane has in registers.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/portable/convert.cuh"
#include "tile/portable/warp_sum.cuh"

namespace tilewright {

template <DType kType>
struct DotProduct;

template <>
struct DotProduct<DType::kF32> {
  using Sum = float;
  __device__ __forceinline__ static float add(float sum, uint4 x, uint4 y) {
    sum = __fmaf_rn(__uint_as_float(x.x), __uint_as_float(y.x), sum);
    sum = __fmaf_rn(__uint_as_float(x.y), __uint_as_float(y.y), sum);
    sum = __fmaf_rn(__uint_as_float(x.z), __uint_as_float(y.z), sum);
    return __fmaf_rn(__uint_as_float(x.w), __uint_as_float(y.w), sum);
  }
};

template <>
struct DotProduct<DType::kBf16> {
  using Sum = float;
  __device__ __forceinline__ static float add(float sum, uint4 x, uint4 y) {
    return add(add(add(add(sum, x.x, y.x), x.y, y.y), x.z, y.z), x.w, y.w);
  }

 private:
  __device__ __forceinline__ static float add(float sum, unsigned x, unsigned y) {
    sum = __fmaf_rn(widen_bf16(x), widen_bf16(y), sum);
    return __fmaf_rn(widen_bf16_high(x), widen_bf16_high(y), sum);
  }
};

template <>
struct DotProduct<DType::kF16> {
  using Sum = float;
  __device__ __forceinline__ static float add(float sum, uint4 x, uint4 y) {
    return add(add(add(add(sum, x.x, y.x), x.y, y.y), x.z, y.z), x.w, y.w);
  }

 private:
  __device__ __forceinline__ static float add(float sum, unsigned x, unsigned y) {
    sum = __fmaf_rn(widen_f16(x & 0xFFFFu), widen_f16(y & 0xFFFFu), sum);
    return __fmaf_rn(widen_f16(x >> 16), widen_f16(y >> 16), sum);
  }
};

template <>
struct DotProduct<DType::kI8> {
  using Sum = int;
  __device__ __forceinline__ static int add(int sum, uint4 x, uint4 y) {
    return add_byte_products(add_byte_products(add_byte_products(add_byte_products(sum, x.x, y.x), x.y, y.y), x.z, y.z),
                             x.w, y.w);
  }
};

}  // namespace tilewright
