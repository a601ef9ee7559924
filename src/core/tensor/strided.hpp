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
ByteRange touched_bytes(DType dtype, std::initializer_list<Extent> extents);
bool ranges_overlap(const void* a, ByteRange range_a, const void* b, ByteRange range_b);

// Whether two elements may share an address: false only when each dimension steps over all that move less. For extents
// that pass reach_fits().
bool may_overlap_itself(std::initializer_list<Extent> extents);

// Whether the first and the last element lie at most 2^56 elements apart: kernels then compute addresses in 64 bits
// without a check.
inline constexpr int64_t kMaxReach = int64_t{1} << 56;
bool reach_fits(std::initializer_list<Extent> extents);

}  // namespace tilewright
