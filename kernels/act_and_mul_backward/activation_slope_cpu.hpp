// SPDX-License-Identifier: MIT
// Activations on 16 lanes with their slopes, chosen at run time.
#pragma once

#include "gemm/gemm_args.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

struct ActivationSlope {
  F32x16 value, slope;
};

// 1 / (1 + 2^t), and 1 less that; 0 from 126 on in either direction. Of NaN they are 0, whatever they are multiplied by.
struct LogisticPair {
  F32x16 is, rest;
};
TILEWRIGHT_INLINE LogisticPair logistic_pair(F32x16 t) {
  const WholePower of(at_most(at_least(t, constant(-126.0f)), constant(126.0f)), constant(1.0f));
  const F32x16 e = exp2_of_rest(of.rest) * of.power, share = reciprocal(constant(1.0f) + e);
  return {zero_unless_less(of.whole, constant(kWholeAndBias + 126), share),
          zero_unless_less(constant(kWholeAndBias - 126), of.whole, e * share)};
}
// A gate x by.is, with -t' ln(2) for `steepness`. A value that vanished takes its slope's large factors with it.
TILEWRIGHT_INLINE ActivationSlope gated_slope(F32x16 x, const LogisticPair& by, F32x16 steepness) {
  const F32x16 value = x * by.is;
  return {value, fma(value * by.rest, steepness, by.is)};
}
// x sigmoid(alpha x)
TILEWRIGHT_INLINE ActivationSlope silu_slope(F32x16 x, float alpha) {
  const F32x16 by = constant(alpha);
  return gated_slope(x, logistic_pair(x * by * constant(-1.44269504f)), by);
}
TILEWRIGHT_INLINE ActivationSlope gelu_tanh_slope(F32x16 x) {
  const F32x16 square = x * x;  // t and its slope, times -ln(2)
  const F32x16 t = x * fma(square, constant(-0.102943239480f), constant(-2.30220819813f));
  const F32x16 finite = at_most(square, constant(0x1p60f));
  return gated_slope(x, logistic_pair(t), fma(finite, constant(0.214064489f), constant(1.595769122f)));
}

TILEWRIGHT_INLINE ActivationSlope activation_slope(Activation activation, F32x16 x) {
  const F32x16 zero = constant(0.0f), one = constant(1.0f), three = constant(3.0f);
  switch (activation) {
    case Activation::kRelu: return {at_least(x, zero), select_less(zero, x, one, select_nan(x, x, zero))};
    case Activation::kGelu: {
      // x Phi(x): Phi(x) + x phi(x)
      const F32x16 value = gelu(x), density = exp(x * x * constant(-0.5f)) * constant(0.398942280f);
      const F32x16 share = select_less(absolute(x), constant(0x1p-60f), constant(0.5f), value / x);
      return {value, fma(x, density, share)};
    }
    case Activation::kGeluTanh: return gelu_tanh_slope(x);
    case Activation::kSilu: return silu_slope(x, 1);
    case Activation::kSigmoid: {
      const LogisticPair by = logistic_pair(x * constant(-1.44269504f));
      return {select_nan(x, x, by.is), select_nan(x, x, by.is * by.rest)};
    }
    case Activation::kTanh: {
      const F32x16 value = tanh(x);
      return {value, fma(zero - value, value, one)};
    }
    case Activation::kHardswish: {
      const F32x16 inner = fma(x, constant(1.0f / 3), constant(0.5f));
      return {hardswish(x), select_less(zero - three, x, select_less(x, three, inner, one), select_nan(x, x, zero))};
    }
    default: return {x, one};
  }
}
// A function, because a kernel activates in many places; through memory, because the calling convention has no such vectors
// everywhere.
inline __attribute__((noinline)) void activation_slope_any(Activation activation, float* x, float* slope) {
  const ActivationSlope found = activation_slope(activation, F32x16::load(x));
  found.value.store(x);
  found.slope.store(slope);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
