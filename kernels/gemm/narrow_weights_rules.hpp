// SPDX-License-Identifier: MIT
// What kernels that widen narrow weights on their way to the product have in common: which weights, scales and zero points they
// take, and where the scales go. Of any config with dtype, weight, scale, group and zero. Freestanding.
#pragma once

#include "tile/common/narrow_weights.hpp"

namespace tilewright {

// Where scales go. e2m1 times a power of two is a bf16: the weights take their scales along. All others multiply the sum
// of their group, in f32.
template <class Config>
constexpr bool narrow_weights_fold(const Config& c) {
  return c.scale == DType::kE8M0 && c.weight == DType::kF4E2M1 && c.dtype == DType::kBf16;
}
template <class Config>
constexpr bool narrow_weights_promote(const Config& c) {
  return c.scale != DType::kNone && !narrow_weights_fold(c);
}

// Null, or why no kernel takes these types.
template <class Config>
constexpr const char* narrow_weights_refusal(const Config& c) {
  if (c.dtype != DType::kBf16 && c.dtype != DType::kF16) return "dtype is none of bf16, f16";
  const bool nibbles = is_nibble_integer(c.weight), integer = nibbles || c.weight == DType::kI8;
  if (!integer && c.weight != DType::kF4E2M1 && !is_ocp_f8(c.weight)) return "no such weights";
  if ((c.scale == DType::kNone) != (c.group == 0)) return "scales without groups, or groups without scales";
  if (c.group != 0 && c.group != 32 && c.group != 64 && c.group != 128) return "group is none of 32, 64, 128";
  if (c.zero != DType::kNone && (c.scale == DType::kNone || !integer)) return "zero points of no group of integers";
  // Else weights less their zero point would not be whole in 16 bits.
  if (c.zero != DType::kNone && !(nibbles ? is_nibble_integer(c.zero) : c.zero == DType::kI8)) {
    return "zero points have neither the weights' bits nor are they integers";
  }
  return nullptr;
}

}  // namespace tilewright
