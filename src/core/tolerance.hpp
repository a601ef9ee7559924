// SPDX-License-Identifier: MIT
// The one place that says how wrong a kernel may be. Tests, the tuner and `tilewright verify` ask here; docs/numerics.md
// derives the numbers. Every bound is absolute, for one output element.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tile/common/dtype.hpp"

namespace tilewright {

inline constexpr double kUlpF32 = 0x1p-24;  // half an ulp of f32, relative

// A sum of K products in f32 (any order). With products of random sign the partial sums grow like sqrt(k) * sigma, each
// addition rounds by at most 2^-24 of its partial sum, and the roundings are independent: their root mean square is
// 0.41 * 2^-24 * sqrt(K) * norm, norm = sqrt(sum of squared products). Four times sqrt(K) is ten of those; the floor of 8
// serves short sums. A lost product changes the sum by norm / sqrt(K), thousands of times more. Integer sums are exact.
inline double accumulation_bound(DType accumulator, int64_t k, double norm) {
  if (accumulator == DType::kI32) return 0;
  return kUlpF32 * std::max(8.0, 4.0 * std::sqrt(static_cast<double>(k))) * norm;
}

// Scaling and adding in f32: at most 16 roundings of terms whose magnitudes add up to `magnitude`.
inline double epilogue_bound(double magnitude) { return 16 * kUlpF32 * magnitude; }

// y = activation(x), x known to `error`: no activation is steeper than 1.5 (hardswish), approximations stay within 8 ulps
// of the result, and those that compute 1 + small (gelu, tanh) within 4 ulps of min(|x|, 1).
inline double activation_bound(double x, double error, double y) {
  return 1.5 * error + 16 * kUlpF32 * std::fabs(y) + 8 * kUlpF32 * std::min(std::fabs(x), 1.0);
}

// x * y, both with an error, and the rounding of the product.
template <class Bounded>
Bounded multiply_bounded(const Bounded& x, const Bounded& y) {
  const double value = x.value * y.value;
  return {value, x.error * std::fabs(y.value) + y.error * std::fabs(x.value) + x.error * y.error +
                     2 * kUlpF32 * std::fabs(value)};
}

// Rounding to the output: half an ulp at `magnitude`, or half the smallest subnormal. A magnitude that f16 cannot hold
// may come out as infinity.
inline double rounding_bound(DType dtype, double magnitude) {
  switch (dtype) {
    case DType::kF16:
      return magnitude >= 65504 ? std::numeric_limits<double>::infinity() : magnitude * 0x1p-11 + 0x1p-25;
    case DType::kBf16: return magnitude * 0x1p-8 * 0.5 + 0x1p-134;
    default: return magnitude * kUlpF32 + 0x1p-150;
  }
}

}  // namespace tilewright
