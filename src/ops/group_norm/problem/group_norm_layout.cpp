// SPDX-License-Identifier: MIT
#include "ops/group_norm/problem/group_norm_layout.hpp"

namespace tilewright {

std::optional<GroupNormStrides> group_norm_strides(const TensorView& t, bool last) {
  int64_t positions = 1, step = 0;  // of those dimensions that were passed, from the last one on
  for (auto i = static_cast<size_t>(t.rank); i-- > 2;) {
    if (t.shape[i] == 1) continue;
    if (positions == 1) {
      step = t.stride[i];
    } else if (t.stride[i] != step * positions) {
      return std::nullopt;
    }
    positions *= t.shape[i];
    if (positions == 0) break;
  }
  const int64_t channels = t.shape[1], apart = channels > 1 ? t.stride[1] : 0;
  const int64_t neighbours = last ? channels : positions, between = last ? apart : step;
  if (neighbours > 1 && between != 1) return std::nullopt;
  const int64_t lines = last ? positions : channels;
  return GroupNormStrides{t.shape[0] > 1 ? t.stride[0] : 0, lines > 1 ? (last ? step : apart) : 0};
}

}  // namespace tilewright
