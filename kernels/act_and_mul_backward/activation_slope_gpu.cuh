// SPDX-License-Identifier: MIT
// Activations on one float with their slopes, chosen at compile time.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"

namespace tilewright {

struct ActivationSlope {
  float value, slope;
};

// 1 / (1 + 2^t), and 1 less that.
struct LogisticPair {
  float is, rest;
};
__device__ __forceinline__ LogisticPair logistic_pair(float t) {
  const float e = exp2_approx(t), is = reciprocal_approx(1.0f + e);
  return {is, e >= 0x1p126f ? 1.0f : e * is};
}
// x / (1 + 2^t), with -t' ln(2) for `steepness`. A value that vanished takes its slope's large factors with it.
__device__ __forceinline__ ActivationSlope gated_slope(float x, float t, float steepness) {
  const LogisticPair by = logistic_pair(t);
  const float value = x * by.is;
  return {value, fmaf(value * by.rest, steepness, by.is)};
}

template <Activation kActivation>
__device__ __forceinline__ ActivationSlope activation_slope(float x, float alpha) {
  constexpr float kMinusLog2E = -1.44269504f;
  if constexpr (kActivation == Activation::kRelu) return {at_least(x, 0.0f), x <= 0 ? 0 : x > 0 ? 1.0f : x};
  if constexpr (kActivation == Activation::kGelu) {
    // x Phi(x): Phi(x) + x phi(x)
    const float density = exp2_approx(x * x * -0.721347520f) * 0.398942280f;
    const float value = activate_gelu(x);
    return {value, fmaf(x, density, fabsf(x) < 0x1p-60f ? 0.5f : value / x)};
  }
  if constexpr (kActivation == Activation::kGeluTanh) {
    const float square = x * x;  // t and its slope, times -ln(2)
    return gated_slope(x, x * fmaf(square, -0.102943239480f, -2.30220819813f),
                       fmaf(at_most(square, 0x1p60f), 0.214064489f, 1.595769122f));
  }
  if constexpr (kActivation == Activation::kSilu) return gated_slope(x, x * alpha * kMinusLog2E, alpha);
  if constexpr (kActivation == Activation::kSigmoid) {
    const LogisticPair by = logistic_pair(x * kMinusLog2E);
    return {by.is, by.is * by.rest};
  }
  if constexpr (kActivation == Activation::kTanh) {
    const float value = activate_tanh(x);
    return {value, fmaf(-value, value, 1.0f)};
  }
  if constexpr (kActivation == Activation::kHardswish) {
    const float slope = x <= -3 ? 0 : x < 3 ? fmaf(x, 1.0f / 3, 0.5f) : x >= 3 ? 1.0f : x;
    return {activate<Activation::kHardswish>(x, 0, 0), slope};
  }
  return {x, 1};
}

}  // namespace tilewright
