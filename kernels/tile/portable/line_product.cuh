// SPDX-License-Identifier: MIT
// Products from registers that were filled straight from memory, without a layout that an instruction names. Lane l has 16
// consecutive bytes of rows l / 4 and l / 4 + 8 of A and of column l / 4 of B, the (l % 4)-th 16 of a line of 64. The order
// of k that comes of it is no natural one, but the same for A and B, and a sum over k has any order.
#pragma once

#include "tile/portable/mma.cuh"

namespace tilewright {

// d [16, 8] += A B over one line; `upper`: of row l / 4, `lower`: of row l / 4 + 8.
template <DType kType>
__device__ __forceinline__ void multiply_line(typename Mma<kType>::Accumulator (&d)[4], uint4 upper, uint4 lower,
                                              uint4 b) {
  const unsigned first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
  Mma<kType>::run(d, first, b.x, b.y);
  Mma<kType>::run(d, second, b.z, b.w);
}

}  // namespace tilewright
