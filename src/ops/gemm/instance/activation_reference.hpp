// SPDX-License-Identifier: MIT
// The activations in float64, and what f32 may err: the yardstick of every operator that has some.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "gemm/gemm_args.hpp"

namespace tilewright {

// A value with the error bound of an f32 computation of it.
struct Bounded {
  double value, error;
};

inline double activate(Activation activation, double x, double low, double high) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return std::isnan(x) ? x : std::max(x, 0.0);
    case Activation::kGelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::kGeluTanh: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
    case Activation::kHardswish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kClamp: return std::isnan(x) ? x : std::min(std::max(x, low), high);
  }
  return x;
}

inline Bounded activate(Activation activation, Bounded x, double low, double high) {
  if (activation == Activation::kNone) return x;
  const auto f = [&](double at) { return activate(activation, at, low, high); };
  const double value = f(x.value);
  return {value, activation_bound(f, x.value, x.error, value)};
}

}  // namespace tilewright
