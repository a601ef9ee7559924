// SPDX-License-Identifier: MIT
// What import_weights and export_weights ask of a tensor, and how they refuse: function, format, argument, value, allowed.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "tilewright/stored_weights.hpp"

namespace tilewright {

struct WeightChecks {
  const char* function;
  WeightFormat format;

  template <class... Args>
  Status refuse(fmt::format_string<Args...> text, Args&&... args) const {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} ({}): {}", function, weight_format_name(format),
                                                            fmt::format(text, std::forward<Args>(args)...)));
  }

  Status shape(const char* name, const TensorView& t, std::span<const int64_t> expected) const {
    if (t.rank == static_cast<int>(expected.size()) && std::equal(expected.begin(), expected.end(), t.shape.begin())) {
      return {};
    }
    return refuse("argument '{}' has shape [{}], expected [{}]", name,
                  fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "),
                  fmt::join(expected.begin(), expected.end(), ", "));
  }

  Status contiguous(const char* name, const TensorView& t, std::span<const int64_t> expected) const {
    if (Status s = shape(name, t, expected); !s) return s;
    int64_t stride = 1;
    for (int i = t.rank - 1; i >= 0; --i) {
      if (t.shape[i] > 1 && t.stride[i] != stride) {
        return refuse("argument '{}' has strides [{}], allowed: row-major", name,
                      fmt::join(t.stride.begin(), t.stride.begin() + t.rank, ", "));
      }
      stride *= t.shape[i];
    }
    return {};
  }

  // Memory of the CPU, where the tensor has elements.
  Status data(const char* name, const TensorView& t) const {
    if (t.device != DeviceId{}) return refuse("argument '{}' is on {}, allowed: cpu", name, to_string(t.device));
    if (t.layout != Layout::kStrided) return refuse("argument '{}' is packed, allowed: plain tensors", name);
    if (t.data == nullptr && t.numel() != 0) return refuse("argument '{}' has a null data pointer", name);
    return {};
  }
};

}  // namespace tilewright
