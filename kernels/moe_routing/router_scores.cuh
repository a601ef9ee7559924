// SPDX-License-Identifier: MIT
// What logits become where the choice, or the weights, are made of scores; and what values of a piece come to.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

// Eight values as one, by pairs.
template <class Merge>
__device__ __forceinline__ float of_pairs(const Piece& p, Merge&& merge) {
  const float low = merge(merge(p.v[0], p.v[1]), merge(p.v[2], p.v[3]));
  return merge(low, merge(merge(p.v[4], p.v[5]), merge(p.v[6], p.v[7])));
}

__device__ __forceinline__ float larger(float a, float b) { return a > b ? a : b; }  // of NaN the second

// e^x
__device__ __forceinline__ float router_exp(float x) { return exp2_approx(__fmul_rn(x, 1.44269504f)); }
__device__ __forceinline__ float sigmoid_score(float x) { return reciprocal_approx(__fadd_rn(1.0f, router_exp(-x))); }
__device__ __forceinline__ float sqrt_softplus_score(float x) {
  const float t = router_exp(-fabsf(x)), s = __fmul_rn(t, reciprocal_approx(__fadd_rn(2.0f, t)));
  const float square = __fmul_rn(s, s);
  float series = kLogSeries[7];
#pragma unroll
  for (int i = 6; i >= 0; --i) series = __fmaf_rn(series, square, kLogSeries[i]);
  return square_root(__fmaf_rn(__fadd_rn(s, s), series, larger(x, 0.0f)));
}

}  // namespace tilewright
