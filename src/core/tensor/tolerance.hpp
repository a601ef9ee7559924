// SPDX-License-Identifier: MIT
// The one place that says how wrong a kernel may be. Tests, the tuner and `tilewright verify` ask here; docs/numerics.md
// shows the numbers. Every bound is absolute, for one output element.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "tile/common/dtype.hpp"

namespace tilewright {

inline constexpr double kUlpF32 = 0x1p-24;  // half an ulp of f32, relative

// A sum of K products in f32, in any order. Added one by one, which of all orders has the longest partial sums,
//     s_i = (s_{i-1} + p_i)(1 + d_i),  |d_i| <= u = 2^-24,
// so to first order the error is the sum of d_i s_i. Let norm = sqrt(sum p_i^2). Products of random signs make partial
// sums that walk, |s_i| ~ norm sqrt(i / K); products that share a sign make them grow, |s_i| ~ |sum| i / K. With independent
// roundings of deviation u / sqrt(3) at most, the error's deviation is
//     u / sqrt(3) * (norm sqrt(K / 2) + |sum| sqrt(K / 3))  <  0.41 u sqrt(K) (norm + |sum|),
// of which 4 u sqrt(K) (norm + |sum|) is more than nine. The floor of 8 serves short sums, whose few roundings do not
// average out, and products that are rounded themselves (f32 without FMA). A lost product changes the sum by about
// norm / sqrt(K): the bound rejects it while K < 2^22. Integer sums are exact.
inline double accumulation_bound(DType accumulator, int64_t k, double norm, double sum) {
  if (accumulator == DType::kI32) return 0;
  return kUlpF32 * std::max(8.0, 4.0 * std::sqrt(static_cast<double>(k))) * (norm + std::fabs(sum));
}

// What the tensor cores of NVIDIA's GPUs may lose beside that.
//
// 16-bit floats: an instruction cuts its 16 products and the running sum s to a multiple of a quarter of an ulp of the
// largest among them, and their sum to an ulp. An ulp is 2 u s at most, 0.75 of that on average over a sum that grows from 0.
// A cut loses up to its unit, half of it on average, so an instruction loses (16 / 4 + 1) / 2 = 2.5 ulps at most.
//  * One sign: K / 16 instructions at s = |sum| / 2 on average lose 0.117 u K |sum|, less where products of bf16 have no
//    bits to lose: a model (tests/unit/core/tolerance_test.cpp) loses 0.072 at K = 8192, `wgmma` of an H200 lost 0.071.
//  * Random signs: products lose in either direction, the running sum always towards zero, 2 u |s| at most. It walks,
//    |s| ~ norm sqrt(i / K) after i products, so that K / 16 instructions lose 2 u K / 16 * 2 / 3 norm < 0.09 u K norm.
// Hence u K / 8 (norm + |sum|). A lost product, norm / sqrt(K), is more while K < 2^18.
//
// 8-bit floats: Hopper's sum them in tiles of 128 of K (kernels/tile/sm90/promote.cuh), 32
// products at a time: each product and the running sum is cut to a multiple of v = 2^-13 of the largest among them, M.
//  * Random signs: M is about the norm of the tile. 33 cuts of deviation v M / sqrt(12), four times a tile: 3.3 v norm over
//    all tiles together, at most.
//  * One sign: a cut loses at most v M, and half of it on average, M being the sum so far: 25 v |sum|. Products of two e4m3
//    have eight bits, so that only those below 2^-5 M lose any: a model of it (tests/unit/core/tolerance_test.cpp) loses
//    6.5 v |sum|.
// Hence 16 v (norm + |sum|), whatever K is. A lost product, norm / sqrt(K), is more while K < 2^18.
//
// tf32 keeps ten bits of mantissa of f32. wgmma cuts the others off, so a factor loses w = 2^-10 of itself at most: a product
// 2 w, half of that on average and with a deviation below 0.41 w. Random signs: nine deviations are 3.7 w norm. One sign:
// 2 w |sum|. Hence 4 w (norm + |sum|); mma.sync, which rounds, stays within half of it.
inline double tensor_core_bound(DType input, bool tf32, int64_t k, double norm, double sum) {
  const bool is_16_bit = input == DType::kF16 || input == DType::kBf16;
  const double lost = is_ocp_f8(input) ? 0x1p-9 : tf32 ? 0x1p-8 : is_16_bit ? static_cast<double>(k) / 8 * kUlpF32 : 0;
  return lost * (norm + std::fabs(sum));
}

// 8-bit floats where fast accumulation is allowed: one sum over all of K, so that M is the running sum s, and a product is
// cut to the power of two below s times v.
//  * Random signs: products lose in either direction while s walks, |s| ~ norm sqrt(i / K) after i of them: a deviation of
//    0.3 v sqrt(K) norm. Hence 4 v sqrt(K) norm, 13 of them, because s may stray.
//  * One sign: half a unit a product, whose power of two is 3/8 |sum| at most on average while the sum grows from 0:
//    0.19 v K |sum|, until products are less than a unit and lost whole. Hence v K / 4 |sum|.
// A K below 64 may lose what 64 may: as much as tiles that are summed apart. A lost product, norm / sqrt(K), is more than
// the error of a sum of random signs, |sum| <= norm, while K < 800.
inline double fast_accumulation_bound(int64_t k, double norm, double sum) {
  const double length = std::max(64.0, static_cast<double>(k));
  return 0x1p-13 * (4 * std::sqrt(length) * norm + length / 4 * std::fabs(sum));
}

// AMD's gfx90a takes subnormal factors of f16 and bf16 for zero in its matrix instructions: what products with such add up to.
// A product of normal factors is never among it. Zero where the factors have other types.
inline double subnormal_factors_bound(DType a, DType b, std::span<const double> x, std::span<const double> y) {
  const auto smallest_normal = [](DType t) { return t == DType::kF16 ? 0x1p-14 : t == DType::kBf16 ? 0x1p-126 : 0.0; };
  const double low_a = smallest_normal(a), low_b = smallest_normal(b);
  double magnitude = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    if (std::fabs(x[k]) < low_a || std::fabs(y[k]) < low_b) magnitude += std::fabs(x[k] * y[k]);
  }
  return magnitude;
}

// Scales of groups along K, inside the sum. The reference rounds A's value times its scale, and B's, to f32. A kernel may do
// that, or round the product of both scales and that of it with the sum of a group: four roundings a product between them,
// none where scales are powers of two.
//  * Random signs: of deviation u / sqrt(3) at most, 1.2 u norm together. 8 u norm is more than six of these.
//  * One sign: values that are equal round alike: 4 u |sum|.
// Hence 8 u (norm + |sum|). A lost product, norm / sqrt(K), is more while K < 2^42.
// Beside that, a value times its scale that is subnormal in f32 is off by half of the smallest one, 2^-150, whatever the
// other factor: `reach` is the sum of the magnitudes of both operands' values.
inline double group_scale_bound(bool powers_of_two, double norm, double sum, double reach) {
  return (powers_of_two ? 0 : 8 * kUlpF32) * (norm + std::fabs(sum)) + 0x1p-150 * reach;
}

// Scaling and adding in f32: at most 16 roundings of terms whose magnitudes add up to `magnitude`.
inline double epilogue_bound(double magnitude) { return 16 * kUlpF32 * magnitude; }

// y = f(x), x known to `error`. No activation is steeper than 1.5 (hardswish), and none bends back by more than 0.375 (the
// dip of hardswish): over a wide interval the values at its ends say more than the slope. Approximations stay within 8 ulps
// of the result, and those that compute 1 + small (gelu, tanh) within 4 ulps of min(|x|, 1).
template <class Function>
double activation_bound(const Function& f, double x, double error, double y) {
  const double ends = std::max(std::fabs(f(x + error) - y), std::fabs(f(x - error) - y));
  const double propagated = std::min(1.5 * error, ends + std::min(error, 0.375));
  return propagated + 16 * kUlpF32 * std::fabs(y) + 8 * kUlpF32 * std::min(std::fabs(x), 1.0);
}

// exp(d) for a difference d <= 0 times a factor, relative: u |d| each for rounding the difference, the product, and log2(e) where 2^x
// takes it (twice), and 8 u for approximations, of which none is worse than 4 u. Results near the smallest normal number may be 0: kLostExponential beside that.
// A sum of N such that is scaled as larger ones are met errs no more: the differences that it is scaled by add up to d, and what
// approximations add is less than accumulation_bound() has for N terms.
inline double exponential_bound(double d) { return kUlpF32 * (4 * std::fabs(d) + 8); }
inline constexpr double kLostExponential = 0x1p-125;

// x * y, both with an error, and the rounding of the product.
template <class Bounded>
Bounded multiply_bounded(const Bounded& x, const Bounded& y) {
  const double value = x.value * y.value;
  return {value, x.error * std::fabs(y.value) + y.error * std::fabs(x.value) + x.error * y.error +
                     2 * kUlpF32 * std::fabs(value)};
}

// Rounding to the output: half an ulp at `magnitude`, where the exponent is that of the largest power of two below it, or
// of the type's subnormals. bf16 and f32 subnormals may be flushed to zero instead. Types that saturate: the caller clamps
// the reference first.
inline double rounding_bound(DType dtype, double magnitude) {
  const auto half_ulp = [magnitude](int bits, int lowest_exponent) {
    const int exponent = magnitude > 0 && std::isfinite(magnitude) ? std::ilogb(magnitude) : lowest_exponent;
    return std::ldexp(1.0, std::max(exponent, lowest_exponent) - bits);
  };
  switch (dtype) {
    case DType::kF16: return half_ulp(11, -14);
    case DType::kBf16: return half_ulp(8, -126) + 0x1p-126;
    case DType::kF8E4M3: return half_ulp(4, -6);
    case DType::kF8E5M2: return half_ulp(3, -14);
    case DType::kF8E4M3Fnuz: return half_ulp(4, -7);
    case DType::kF8E5M2Fnuz: return half_ulp(3, -15);
    case DType::kF4E2M1: return half_ulp(2, 0);
    case DType::kI8:
    case DType::kI32: return 0.5;
    default: return half_ulp(24, -126) + 0x1p-126;
  }
}

// The largest finite value of an output type that overflows to infinity.
inline double largest_finite(DType dtype) {
  return dtype == DType::kF16 ? 65504 : dtype == DType::kBf16 ? 0x1.FEp127 : 0x1.FFFFFEp127;
}

// The error of `got` as a share of what is allowed: right up to 1, infinite where no bound could make it right. A
// reference that comes within its bound of `largest` may come out as infinity, and one beyond it as the largest value.
inline double error_ratio(double got, double reference, double allowed,
                          double largest = std::numeric_limits<double>::infinity()) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(reference)) return std::isnan(got) ? 0 : kWrong;
  if (got == reference) return 0;
  if (std::isnan(got)) return kWrong;
  if (std::isinf(got)) {
    return std::signbit(got) == std::signbit(reference) && std::fabs(reference) + allowed >= largest ? 0 : kWrong;
  }
  if (std::isinf(reference)) return kWrong;
  const double nearest = std::clamp(reference, -largest, largest);
  return std::fabs(got - nearest) / std::max(allowed, 1e-300);
}

}  // namespace tilewright
