// SPDX-License-Identifier: MIT
// What group_norm_backward_cpu does with an element: the gradient of what normalised it, and x's gradient from that.
#pragma once

#include "act_and_mul_backward/activation_slope_cpu.hpp"
#include "group_norm/group_norm_channel_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What a group's elements give away: the mean of their gradients, over its deviation, and the mean of those times normalised elements, over
// its square.
template <class Value>
struct GroupNormMeans {
  Value less, along;
};
// How far an element is off the mean, and the gradient of what weight and bias made of it.
struct GroupNormSlope {
  F32x16 off, gradient;
};
template <bool kSilu>
TILEWRIGHT_INLINE GroupNormSlope group_norm_slope(const GroupNormScale<F32x16>& by, F32x16 x, F32x16 dy) {
  const F32x16 off = x - by.mean;
  if constexpr (!kSilu) return {off, dy};
  return {off, dy * silu_slope(fma(off, by.by, by.bias), 1).slope};
}
TILEWRIGHT_INLINE F32x16 group_norm_gradient(const GroupNormScale<F32x16>& by, const GroupNormMeans<F32x16>& means,
                                             const GroupNormSlope& of) {
  return fma_less(of.gradient, by.by, fma(of.off, means.along, means.less));
}
TILEWRIGHT_INLINE GroupNormMeans<float> group_norm_means(const float* group) {
  return {group[2] * group[1], group[3] * group[1] * group[1]};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
