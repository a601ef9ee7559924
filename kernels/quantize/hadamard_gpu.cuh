// SPDX-License-Identifier: MIT
// Blocks of neighbours by a Hadamard matrix in Sylvester's order, over the root of their size. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row_input.cuh"

namespace tilewright {

// A thread's part of a block, with those of its neighbours. Stages come in one order, so that bits are the same everywhere.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void rotate_block(const RowArgs& given, Piece& p) {
  if (!rotates_blocks(kConfig, given)) return;
  const int block = anew(given).quantising.hadamard;

  // Of pairs in this thread, the first has the sum.
#pragma unroll
  for (int distance = 1; distance < kRowPiece; distance *= 2) {
    for_elements([&](int i) {
      if ((i & distance) != 0) return;
      const float a = p.v[i], b = p.v[i + distance];
      p.v[i] = __fadd_rn(a, b), p.v[i + distance] = __fadd_rn(a, -b);
    });
  }

  // Of pairs of threads, the lower one.
  const auto me = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x)));
#pragma unroll 1
  for (int distance = 1; distance < block / kRowPiece; distance *= 2) {
    const bool lower = (me & static_cast<unsigned>(distance)) == 0;
    for_elements([&](int i) {
      const float other = lane_xor(p.v[i], static_cast<unsigned>(distance));
      p.v[i] = __fadd_rn(other, lower ? p.v[i] : -p.v[i]);
    });
  }

  const float factor = hadamard_factor(block);
  for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], factor); });
}

}  // namespace tilewright
