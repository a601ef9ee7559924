// SPDX-License-Identifier: MIT
// Which memory a strided tensor touches: extents, overlap, and the limit that keeps address arithmetic free of overflow.
// Every operator's validation asks here.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "tile/common/dtype.hpp"

namespace tilewright {

// One dimension; the stride counts elements and may be zero or negative.
struct Extent {
  int64_t size, stride;
};

// Bytes [low, high) relative to the element with all indices zero. Empty when a size is 0.
struct ByteRange {
  int64_t low = 0, high = 0;
  bool empty() const { return low == high; }
};
// On the path of every call, so both are here to be inlined.
inline ByteRange touched_bytes(DType dtype, std::initializer_list<Extent> extents) {
  int64_t low = 0, high = 0;
  for (const Extent& e : extents) {
    if (e.size <= 0) return {};
    const int64_t reach = (e.size - 1) * e.stride;
    low += reach < 0 ? reach : 0;
    high += reach < 0 ? 0 : reach;
  }
  // 4-bit elements: every byte that holds one.
  const int64_t bits = dtype_bits(dtype);
  return {low * bits >> 3, ((high + 1) * bits + 7) >> 3};
}
inline bool ranges_overlap(const void* a, ByteRange range_a, const void* b, ByteRange range_b) {
  if (range_a.empty() || range_b.empty()) return false;
  const auto at = reinterpret_cast<intptr_t>(a), bt = reinterpret_cast<intptr_t>(b);
  return at + range_a.low < bt + range_b.high && bt + range_b.low < at + range_a.high;
}

// Whether two elements may share an address: false only when each dimension steps over all that move less. For extents
// that pass reach_fits().
bool may_overlap_itself(std::initializer_list<Extent> extents);

// Whether the first and the last element lie at most 2^56 elements apart: kernels then compute addresses in 64 bits
// without a check.
inline constexpr int64_t kMaxReach = int64_t{1} << 56;
bool reach_fits(std::initializer_list<Extent> extents);

}  // namespace tilewright
