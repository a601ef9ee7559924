// SPDX-License-Identifier: MIT
// exp, erf, tanh and the activations on 16 lanes. Polynomials are our own minimax fits; the largest errors against the
// exact functions, over all f32 arguments with fused multiply-add (in ulps of the result), stand at each function and
// are checked by tests/op/kernels/gemm_kernel_vec_test.cpp. NaN stays NaN.
#pragma once

#include "tile/cpu/vec.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

TILEWRIGHT_INLINE F32x16 constant(float value) { return F32x16::splat(value); }

// c[0] + x (c[1] + x (...)), highest degree last.
template <int kCount>
TILEWRIGHT_INLINE F32x16 polynomial(F32x16 x, const float (&c)[kCount]) {
  F32x16 sum = constant(c[kCount - 1]);
  unroll<kCount - 1>([&](auto i) __attribute__((always_inline)) { sum = fma(sum, x, constant(c[kCount - 2 - i])); });
  return sum;
}

// 1 ulp; results near or below the smallest normal number are 0: a subnormal lane is slow.
TILEWRIGHT_INLINE F32x16 exp(F32x16 argument) {
  // exp(x) = 2^n exp(r), |r| <= ln 2 / 2. Above the clamp the result is infinity all the same.
  const F32x16 lowest = constant(-86.9f);
  const F32x16 x = at_most(at_least(argument, lowest), constant(89.0f));
  const I32x16 n = round_to_int(x * constant(1.44269504f));
  const F32x16 nf = to_float(n);
  F32x16 r = fma(nf, constant(-0.693359375f), x);  // ln 2 in two parts; the first has few bits, so the product is exact
  r = fma(nf, constant(2.12194440e-4f), r);
  constexpr float kCoefficients[] = {0x1.fffffcp-2f, 0x1.555490p-3f, 0x1.5558f4p-5f, 0x1.123a6cp-7f, 0x1.6a234ep-10f};
  const F32x16 p = fma(r * r, polynomial(r, kCoefficients), r) + constant(1.0f);
  // Two steps, because 2^n alone can overflow or be subnormal.
  const I32x16 half = shift_right_signed<1>(n);
  const I32x16 bias = I32x16::splat(127);
  const F32x16 scale0 = as_float(shift_left<23>(half + bias));
  const F32x16 scale1 = as_float(shift_left<23>(n - half + bias));
  return select_nan(argument, argument, select_less(argument, lowest, constant(0.0f), p * scale0 * scale1));
}

// erf(x) for |x| < 0.93, as x + x P(x^2): what is added is small, and with it its rounding.
TILEWRIGHT_INLINE F32x16 erf_small(F32x16 x) {
  constexpr float kCoefficients[] = {0x1.06eba8p-3f, -0x1.812742p-2f,  0x1.ce2e0ap-4f, -0x1.b80e94p-6f,
                                     0x1.54c80ap-8f, -0x1.aa3fc2p-11f, 0x1.5cd652p-14f};
  return fma(x, polynomial(x * x, kCoefficients), x);
}
// 1 - erf(t) for t >= 0.92, as exp(-t R(t)).
TILEWRIGHT_INLINE F32x16 erfc_large(F32x16 t) {
  constexpr float kCoefficients[] = {0x1.20f4a6p+0f,   0x1.45083ap-1f,   0x1.b513f4p-4f,   -0x1.8a53b8p-6f,
                                     0x1.e39bfcp-9f,   -0x1.1f0ccep-12f, -0x1.38285cp-16f, 0x1.c1c614p-18f,
                                     -0x1.5655dap-21f, 0x1.8078bep-26f};
  t = at_most(t, constant(10.0f));  // 0 from there on, in f32
  return exp(constant(0.0f) - t * polynomial(t, kCoefficients));
}

// 1.3 ulps.
TILEWRIGHT_INLINE F32x16 erf(F32x16 x) {
  const F32x16 t = absolute(x);
  const F32x16 large = with_sign(constant(1.0f) - erfc_large(t), x);
  return select_nan(x, x, select_less(t, constant(0.925f), erf_small(x), large));
}

// 1.4 ulps.
TILEWRIGHT_INLINE F32x16 tanh(F32x16 x) {
  const F32x16 t = absolute(x);
  constexpr float kCoefficients[] = {-0x1.555548p-2f, 0x1.110c98p-3f, -0x1.b90fc2p-5f, 0x1.58669ep-6f, -0x1.963d6cp-8f};
  const F32x16 square = x * x;
  const F32x16 small = fma(x * square, polynomial(square, kCoefficients), x);
  const F32x16 e = exp(t + t);
  const F32x16 large = with_sign(constant(1.0f) - constant(2.0f) / (e + constant(1.0f)), x);
  return select_nan(x, x, select_less(t, constant(0.55f), small, large));
}

// 1 / (1 + exp(-x))
TILEWRIGHT_INLINE F32x16 sigmoid(F32x16 x) { return constant(1.0f) / (constant(1.0f) + exp(constant(0.0f) - x)); }
// x / (1 + exp(-x)); like that formula, NaN at minus infinity.
TILEWRIGHT_INLINE F32x16 silu(F32x16 x) { return x / (constant(1.0f) + exp(constant(0.0f) - x)); }

// x/2 (1 + erf(x / sqrt 2)), without cancellation for negative x.
TILEWRIGHT_INLINE F32x16 gelu(F32x16 x) {
  const F32x16 s = x * constant(0.70710678f);
  const F32x16 t = absolute(s);
  const F32x16 half = x * constant(0.5f);
  const F32x16 tail = erfc_large(t);
  const F32x16 zero = constant(0.0f);
  const F32x16 large = half * select_less(x, zero, tail, constant(2.0f) - tail);
  return select_nan(x, x, select_less(t, constant(0.925f), fma(half, erf_small(s), half), large));
}
// x/2 (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
TILEWRIGHT_INLINE F32x16 gelu_tanh(F32x16 x) {
  const F32x16 u = constant(0.7978845608f) * fma(x * x * x, constant(0.044715f), x);
  return x / (constant(1.0f) + exp(constant(-2.0f) * u));
}
// x clamp(x + 3, 0, 6) / 6
TILEWRIGHT_INLINE F32x16 hardswish(F32x16 x) {
  const F32x16 gate = at_most(at_least(x + constant(3.0f), constant(0.0f)), constant(6.0f));
  return x * gate * constant(1.0f / 6.0f);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
