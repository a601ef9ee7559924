// SPDX-License-Identifier: MIT
// The activations of gemm_args.hpp on one float, chosen at compile time or at run time.
//
// Those with an exponential are logistic functions, as on the CPU: 1 / (1 + 2^t), t within 3 u |t| of what it should be
// (u = 2^-24; the fits of gelu add 2 u). With exp2_approx and reciprocal_approx the relative error of the result is below
// 2^t / (1 + 2^t) (2.1 u |t| + 4 u) + 3 u. Where it is large, |t| is and the result has vanished: the absolute error of
// sigmoid stays below 4 u, that of silu and gelu below 16 u |y| + 3 u min(|x|, 1), within core/tensor/tolerance.hpp.
#pragma once

#include "gemm/gemm_args.hpp"
#include "tile/gpu/math.hpp"

namespace tilewright {

inline constexpr float kMinusLog2E = -1.44269504f;

// 1 / (1 + 2^t); 2^t that overflows gives 0.
__device__ __forceinline__ float logistic2(float t) { return reciprocal_approx(1.0f + exp2_approx(t)); }

// silu of both by one reciprocal, where reciprocals are what binds: two more roundings, 2 u. 2^t counts as 2^63 from there on, so that the product of two stays
// finite; silu is below 2^-57 there.
__device__ __forceinline__ void silu_both(float& x, float& y) {
  constexpr float kMost = 0x1p63f;
  const float of_x = 1.0f + fminf(exp2_approx(x * kMinusLog2E), kMost),
              of_y = 1.0f + fminf(exp2_approx(y * kMinusLog2E), kMost);
  const float both = reciprocal_approx(of_x * of_y);
  x *= both * of_y, y *= both * of_x;
}

__device__ __forceinline__ float activate_tanh(float x) {
  const float t = fabsf(x);
  // Near zero 1 - 2 / (e + 1) loses digits: an odd polynomial (the fit of tile/cpu/vec_math.hpp).
  const float square = x * x;
  float p = -0x1.963d6cp-8f;
  p = fmaf(p, square, 0x1.58669ep-6f);
  p = fmaf(p, square, -0x1.b90fc2p-5f);
  p = fmaf(p, square, 0x1.110c98p-3f);
  p = fmaf(p, square, -0x1.555548p-2f);
  const float small = fmaf(x * square, p, x);
  const float large = copysignf(fmaf(-2.0f, logistic2(t * 2.88539008f), 1.0f), x);
  return t < 0.55f ? small : large;
}
// x Phi(x): the fit of tile/cpu/vec_math.hpp.
__device__ __forceinline__ float activate_gelu(float x) {
  const float square = x * x;
  float p = -0x1.6860d2p-28f;
  p = fmaf(p, square, 0x1.9f1274p-22f);
  p = fmaf(p, square, -0x1.812094p-17f);
  p = fmaf(p, square, 0x1.4eae5ep-13f);
  p = fmaf(p, square, 0x1.8db0d0p-14f);
  p = fmaf(p, square, -0x1.ad69c0p-4f);
  p = fmaf(p, square, -0x1.26aec2p+1f);
  return x * logistic2(x * p);
}
__device__ __forceinline__ float activate_gelu_tanh(float x) {
  return x * logistic2(x * fmaf(x * x, -0.102943239480f, -2.30220819813f));  // -2 sqrt(2/pi) log2(e) (1, 0.044715)
}

template <Activation kActivation>
__device__ __forceinline__ float activate(float x, float low, float high) {
  if constexpr (kActivation == Activation::kRelu) return at_least(x, 0.0f);
  if constexpr (kActivation == Activation::kGelu) return activate_gelu(x);
  if constexpr (kActivation == Activation::kGeluTanh) return activate_gelu_tanh(x);
  if constexpr (kActivation == Activation::kSilu) return x * logistic2(x * kMinusLog2E);
  if constexpr (kActivation == Activation::kSigmoid) return logistic2(x * kMinusLog2E);
  if constexpr (kActivation == Activation::kTanh) return activate_tanh(x);
  if constexpr (kActivation == Activation::kHardswish) {
    return x * (at_most(at_least(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f));
  }
  if constexpr (kActivation == Activation::kClamp) return at_most(at_least(x, low), high);
  return x;
}

__device__ __forceinline__ float activate(Activation activation, float x, float low, float high) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return activate<Activation::kRelu>(x, low, high);
    case Activation::kGelu: return activate<Activation::kGelu>(x, low, high);
    case Activation::kGeluTanh: return activate<Activation::kGeluTanh>(x, low, high);
    case Activation::kSilu: return activate<Activation::kSilu>(x, low, high);
    case Activation::kSigmoid: return activate<Activation::kSigmoid>(x, low, high);
    case Activation::kTanh: return activate<Activation::kTanh>(x, low, high);
    case Activation::kHardswish: return activate<Activation::kHardswish>(x, low, high);
    case Activation::kClamp: return activate<Activation::kClamp>(x, low, high);
  }
  return x;
}

}  // namespace tilewright
