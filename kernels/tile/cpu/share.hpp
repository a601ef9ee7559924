// SPDX-License-Identifier: MIT
// Which of many things a unit of work has: neighbours, as many as any other unit, or one more.
#pragma once

#include "tile/cpu/isa.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Where a unit's share of `count` things begins, and the one before it ends.
TILEWRIGHT_INLINE long long share_edge(long long count, unsigned unit, unsigned units) {
  const long long each = count / units, more = count % units;
  return unit * each + (unit < more ? unit : more);
}
// body(which) of each in a unit's share.
template <class Body>
TILEWRIGHT_INLINE void for_share(long long count, unsigned unit, unsigned units, Body&& body) {
  const long long last = share_edge(count, unit + 1, units);
  for (long long i = share_edge(count, unit, units); i < last; ++i) body(i);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
