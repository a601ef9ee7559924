// SPDX-License-Identifier: MIT
// What a wrong lane map leaves behind: the right elements of a tile, at other places of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dispatch/instance/comparison.hpp"

namespace tilewright {

// A block of `rows` x `columns` elements, row by row, of which some are wrong. If those of an aligned tile of 16, 32, 64 or
// 128 are right in another order, words that say so and where; "" otherwise. `got` are loaded as they are asked for.
std::string find_lane_map(std::span<const ReferenceElement> want, int64_t rows, int64_t columns,
                          const std::function<double(int64_t row, int64_t column)>& got);

}  // namespace tilewright
