// SPDX-License-Identifier: MIT
// The activations of gemm_args.hpp on 16 lanes, chosen at run time once a row.
#pragma once

#include "gemm/gemm_args.hpp"
#include "tile/cpu/vec_math.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// body(activate) with activate: F32x16 -> F32x16.
template <class Body>
TILEWRIGHT_INLINE void with_activation(Activation activation, float low, float high, Body&& body) {
  const F32x16 lower = F32x16::splat(low), upper = F32x16::splat(high);
  switch (activation) {
    case Activation::kNone: return body([](F32x16 x) { return x; });
    case Activation::kRelu: return body([](F32x16 x) { return at_least(x, F32x16::splat(0)); });
    case Activation::kGelu: return body([](F32x16 x) { return gelu(x); });
    case Activation::kGeluTanh: return body([](F32x16 x) { return gelu_tanh(x); });
    case Activation::kSilu: return body([](F32x16 x) { return silu(x); });
    case Activation::kSigmoid: return body([](F32x16 x) { return sigmoid(x); });
    case Activation::kTanh: return body([](F32x16 x) { return tanh(x); });
    case Activation::kHardswish: return body([](F32x16 x) { return hardswish(x); });
    case Activation::kClamp: return body([=](F32x16 x) { return at_most(at_least(x, lower), upper); });
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
