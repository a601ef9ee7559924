// SPDX-License-Identifier: MIT
// exp, tanh and the activations on 16 lanes. Polynomials are our own minimax fits; what exp and tanh err, in ulps
// of the result, stands there; activations keep to core/tensor/tolerance.hpp. tests/op/kernels/gemm_kernel_vec_test.cpp checks
// both on a sample of all f32 arguments. NaN stays NaN.
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
  const F32x16 lowest = constant(-86.9f), x = at_most(at_least(argument, lowest), constant(89.0f));
  const F32x16 n = round_to_whole(x * constant(1.44269504f));
  F32x16 r = fma(n, constant(-0.693359375f), x);  // ln 2 in two parts; the first has few bits, so the product is exact
  r = fma(n, constant(2.12194440e-4f), r);
  constexpr float kCoefficients[] = {0x1.fffffcp-2f, 0x1.555490p-3f, 0x1.5558f4p-5f, 0x1.123a6cp-7f, 0x1.6a234ep-10f};
  const F32x16 p = fma(r * r, polynomial(r, kCoefficients), r) + constant(1.0f);
  return select_less(argument, lowest, constant(0.0f), scale_by_power(p, n));
}

// 2^x for |x| <= 1/2.
TILEWRIGHT_INLINE F32x16 exp2_of_rest(F32x16 x) {
  constexpr float kCoefficients[] = {1.0f,           0x1.62e42ap-1f, 0x1.ebf9bcp-3f,
                                     0x1.c6b752p-5f, 0x1.3cea88p-7f, 0x1.5bba14p-10f};
  return polynomial(x, kCoefficients);
}
// 2^x for -126 <= x < 128.
TILEWRIGHT_INLINE F32x16 exp2_normal(F32x16 x) {
  const F32x16 n = round_to_whole(x);
  return scale_by_power(exp2_of_rest(x - n), n);
}
// A product x by, |x by| < 2^22, as a whole number n and a rest: added to it, this leaves n in the last places and 127 more, which shifted
// are the float 2^n if it is a normal one. Else they stand for no subnormal number.
inline constexpr float kWholeAndBias = 0x1.8p23f + 127;
struct WholePower {
  F32x16 whole, power, rest;  // n + kWholeAndBias, 2^n, x by - n

  TILEWRIGHT_INLINE WholePower(F32x16 x, F32x16 by)
      : whole(fma(x, by, constant(kWholeAndBias))),
        power(as_float(shift_left<23>(as_int(whole)))),
        rest(fma_less(x, by, whole - constant(kWholeAndBias))) {}
};
// 2^(x by), which is below 2^126. Results near or below the smallest normal number are 0.
TILEWRIGHT_INLINE F32x16 exp2_below_one(F32x16 x, F32x16 by) {
  const WholePower of(x, by);
  return zero_if_less(of.whole, constant(kWholeAndBias - 125), exp2_of_rest(of.rest) * of.power);
}
// exp(factor x) is 2^(x times this); finite where the factor is.
TILEWRIGHT_INLINE float log2_factor(float factor) {
  const float by = factor * 1.44269504f;
  return __builtin_isinf(by) && !__builtin_isinf(factor) ? 0x1.FFFFFEp127f : by;
}

// 1 / (1 + 2^(x by)), x by >= -126; from 126 on it is 0, and of NaN, whatever it is multiplied by.
TILEWRIGHT_INLINE F32x16 logistic2_product(F32x16 x, F32x16 by) {
  const WholePower of(x, by);
  const F32x16 share = reciprocal(fma(exp2_of_rest(of.rest), of.power, constant(1.0f)));
  return zero_unless_less(of.whole, constant(kWholeAndBias + 126), share);
}
TILEWRIGHT_INLINE F32x16 logistic2_of_number(F32x16 x) {
  return logistic2_product(at_least(x, constant(-126.0f)), constant(1.0f));
}
TILEWRIGHT_INLINE F32x16 logistic2(F32x16 x) { return select_nan(x, x, logistic2_of_number(x)); }

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
TILEWRIGHT_INLINE F32x16 sigmoid(F32x16 x) { return logistic2(x * constant(-1.44269504f)); }
// x / (1 + exp(-x)); like that formula, NaN at minus infinity.
TILEWRIGHT_INLINE F32x16 silu(F32x16 x) {
  return x * logistic2_product(at_most(x, constant(87.0f)), constant(-1.44269504f));
}
// x / (1 + exp(-alpha x))
TILEWRIGHT_INLINE F32x16 silu(F32x16 x, float alpha) {
  return x * logistic2_of_number(x * constant(-1.44269504f * alpha));
}

// x Phi(x), Phi the normal distribution as a logistic function of x P(x^2). The last coefficient keeps that argument growing
// outside the range of the fit, so that the result vanishes on the left. NaN at minus infinity.
TILEWRIGHT_INLINE F32x16 gelu(F32x16 x) {
  constexpr float kCoefficients[] = {-0x1.26aec2p+1f,  -0x1.ad69c0p-4f, 0x1.8db0d0p-14f, 0x1.4eae5ep-13f,
                                     -0x1.812094p-17f, 0x1.9f1274p-22f, -0x1.6860d2p-28f};
  return x * logistic2_of_number(x * polynomial(x * x, kCoefficients));
}
// x/2 (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
TILEWRIGHT_INLINE F32x16 gelu_tanh(F32x16 x) {
  constexpr float kCoefficients[] = {-2.30220819813f, -0.102943239480f};  // -2 sqrt(2/pi) log2(e) (1, 0.044715)
  return x * logistic2_of_number(x * polynomial(x * x, kCoefficients));
}
// x clamp(x + 3, 0, 6) / 6
TILEWRIGHT_INLINE F32x16 hardswish(F32x16 x) {
  const F32x16 gate = at_most(at_least(x + constant(3.0f), constant(0.0f)), constant(6.0f));
  return x * gate * constant(1.0f / 6.0f);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
