// SPDX-License-Identifier: MIT
// What families of kernels that widen narrow weights ask of a problem and a kernel: the types, scales and zero points of both.
#pragma once

#include "ops/gemm/families/gpu/gpu_family.hpp"

namespace tilewright {

// Ok, or why no such kernel serves A, B and their scales.
inline Status check_narrow_product(const GemmProblem& p) {
  if (p.scale_a.blocked()) return unsupported("A has scales of groups, the kernel has those of B");
  if (p.a_dtype == p.b_dtype) {
    return unsupported(fmt::format("A and B are {}, the kernel widens B to A's type", dtype_name(p.a_dtype)));
  }
  return {};
}
// For kernels that have a scale for each column.
inline Status check_scales_of_columns(const GemmProblem& p) {
  if (!p.scale_b.blocked() || p.scale_b.outer == 1) return {};
  return unsupported(fmt::format("B has scales of {} columns, allowed: 1", int{p.scale_b.outer}));
}
// Ok, or how the kernel's weights differ from the problem's, with their scales.
template <class Config>
Status check_narrow_weights(const GemmProblem& p, const Config& c) {
  if (c.weight != p.b_dtype) {
    return unsupported(fmt::format("kernel widens {}, B is {}", dtype_name(c.weight), dtype_name(p.b_dtype)));
  }
  const DType scale = p.scale_b.blocked() ? p.scale_b.dtype : DType::kNone;
  if (c.scale != scale || c.group != p.scale_b.k) {
    return unsupported(fmt::format("the kernel has scales {} of {} values, B has {} of {}", dtype_name(c.scale),
                                   c.group, dtype_name(scale), int{p.scale_b.k}));
  }
  if (c.zero != p.zero_b.dtype) {
    return unsupported(
        fmt::format("the kernel has zero points {}, B has {}", dtype_name(c.zero), dtype_name(p.zero_b.dtype)));
  }
  return {};
}

template <class Config>
class NarrowWeightsFamily : public GpuFamily<Config> {
 public:
  std::span<const std::string_view> knob_names() const override { return {}; }

 protected:
  using GpuFamily<Config>::GpuFamily;

  Status check_product(const GemmProblem& p) const final { return check_narrow_product(p); }
  // Of check_pair: whether the kernel takes the problem's weights, with their scales, and its rows.
  Status check_weights(const GemmProblem& p, const Config& c) const {
    if (Status s = check_narrow_weights(p, c); !s) return s;
    return check_rows(p, c);
  }
  Status check_rows(const GemmProblem& p, const Config& c) const {
    if (p.m > c.tokens) return unsupported(fmt::format("M = {}, the kernel takes {}", p.m, c.tokens));
    return {};
  }
};

}  // namespace tilewright
