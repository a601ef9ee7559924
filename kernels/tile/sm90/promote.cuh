// SPDX-License-Identifier: MIT
// Products of 8-bit floats. wgmma aligns what it adds, the running sum among it, to the largest of them and keeps about 14
// bits: sums over a long K lose more the longer K is. So, where the caller does not allow that, each tile of K, 128 of 8-bit
// types, is summed from zero and added in f32. What is left of the error stands in core/tensor/tolerance.hpp.
#pragma once

#include "tile/sm90/wgmma.cuh"

namespace tilewright::sm90 {

// Columns of an instruction for a tile of `n`: what is summed apart takes registers too, for no more than `most`.
constexpr int promoted_columns(int n, int most) { return n > most ? n / 2 : n; }

// apart = A B over a tile of K, by descriptors of rows along K: begun, a group of its own.
template <class Wgmma, int kTileK, int kCount>
__device__ __forceinline__ void begin_apart(float (&apart)[kCount], unsigned long long a, unsigned long long b) {
  pin(apart);
  begin_products();
#pragma unroll
  for (int k = 0; k < kTileK / Wgmma::kK; ++k) {
    Wgmma::template multiply<0, 0>(apart, a + k * kDescriptorStep<Major::kK>, b + k * kDescriptorStep<Major::kK>,
                                   k > 0);
  }
  commit_products();
  pin(apart);
}

}  // namespace tilewright::sm90
