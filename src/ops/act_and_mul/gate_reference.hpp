// SPDX-License-Identifier: MIT
// Gates in float64, and what f32 may err: of act_and_mul and of its gradient.
#pragma once

#include "ops/gemm/instance/activation_reference.hpp"

namespace tilewright {

inline double clamped(double x, double low, double high) {
  return std::isnan(x) ? x : std::min(std::max(x, low), high);
}

// activation(x) in f32; silu as x sigmoid(alpha x), whose argument is rounded.
inline Bounded activated(Activation activation, double x, double alpha) {
  if (activation != Activation::kSilu) return activate(activation, Bounded{x, 0}, 0, 0);
  const Bounded of{alpha * x, alpha == 1 ? 0 : kUlpF32 * std::fabs(alpha * x)};
  const Bounded silu = activate(activation, of, 0, 0);
  // Below f32's range of x sigmoid(alpha x) nothing is lost that matters: alpha divides what both have.
  return {alpha == 0 ? x / 2 : silu.value / alpha, alpha == 0 ? kUlpF32 * std::fabs(x) : silu.error / std::fabs(alpha)};
}

}  // namespace tilewright
