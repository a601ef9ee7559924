// SPDX-License-Identifier: MIT
// Sections of pairs, of which each takes another axis of the positions: what rope and qk_norm_rope_cache share.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tile/common/row_rotation.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

using SectionPairs = std::array<int32_t, kRopeAxes>;

// Axes that have pairs, at least one.
constexpr int rope_axes(const SectionPairs& pairs) {
  int axes = kRopeAxes;
  while (axes > 1 && pairs[static_cast<size_t>(axes - 1)] == 0) --axes;
  return axes;
}
// A call's sections: an axis that has all pairs is none.
Status read_sections(std::string_view op, const std::array<int64_t, kRopeAxes>& from, SectionPairs& to);
// Whether they are `dims` / 2 pairs.
Status check_sections(std::string_view op, const SectionPairs& pairs, RopeSections order, int64_t dims);
void set_sections(const SectionPairs& pairs, RopeSections order, RowRotation& to);
// The axis of a pair, as docs/rope.md says it.
int axis_of_pair(const SectionPairs& pairs, RopeSections order, int64_t pair);

// "16.24.24"
std::string print_sections(const SectionPairs& pairs);
Status parse_sections(std::string_view text, SectionPairs& to);

}  // namespace tilewright
