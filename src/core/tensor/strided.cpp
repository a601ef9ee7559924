// SPDX-License-Identifier: MIT
#include "core/tensor/strided.hpp"

#include <array>
#include <cstdlib>

#include "tilewright/tensor_view.hpp"

namespace tilewright {

bool may_overlap_itself(std::initializer_list<Extent> extents) {
  // Sorted by insertion, least movement first; on the path of every call, so nothing is allocated.
  std::array<Extent, kMaxRank> sorted{};
  size_t count = 0;
  for (const Extent& e : extents) {
    if (e.size <= 1) continue;
    if (count == sorted.size()) return true;
    size_t at = count++;
    for (; at > 0 && std::llabs(sorted[at - 1].stride) > std::llabs(e.stride); --at) sorted[at] = sorted[at - 1];
    sorted[at] = e;
  }
  int64_t reach = 0;  // of the dimensions so far; a larger stride must step over it
  for (size_t i = 0; i < count; ++i) {
    const int64_t step = std::llabs(sorted[i].stride);
    if (step <= reach) return true;
    reach += (sorted[i].size - 1) * step;
  }
  return false;
}

bool reach_fits(std::initializer_list<Extent> extents) {
  __int128 total = 0;
  for (const Extent& e : extents) {
    if (e.size <= 1) continue;
    const __int128 reach = static_cast<__int128>(e.size - 1) * e.stride;
    total += reach < 0 ? -reach : reach;
    if (total > kMaxReach) return false;
  }
  return true;
}

}  // namespace tilewright
