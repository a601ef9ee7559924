// SPDX-License-Identifier: MIT
// Limits of a launch that families of several operators on GPUs keep to.
#pragma once

#include <cstdint>

namespace tilewright {

// Of a grid.
inline constexpr int64_t kMostGridBlocks = (int64_t{1} << 31) - 1;
// Of a kernel that goes on where the grid ends: AMD GPUs count work-items in 32 bits.
constexpr int64_t most_walking_blocks(int threads) { return kMostGridBlocks / threads; }
// Tokens of calls whose programmatic edges are used: of more, the time in front of a kernel is little.
inline constexpr int64_t kEdgedTokens = 256;

}  // namespace tilewright
