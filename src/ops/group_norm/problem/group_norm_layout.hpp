// SPDX-License-Identifier: MIT
// In which of the two layouts a tensor of shape [N, C, ...] lies.
#pragma once

#include <optional>

#include "ops/group_norm/problem/group_norm_problem.hpp"

namespace tilewright {

// Its strides if positions, or channels where these are `last`, are neighbours, and all positions one stride apart.
std::optional<GroupNormStrides> group_norm_strides(const TensorView& t, bool last);

}  // namespace tilewright
