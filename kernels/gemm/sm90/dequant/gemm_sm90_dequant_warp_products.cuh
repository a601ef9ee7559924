// SPDX-License-Identifier: MIT
// Products of gemm_sm90_dequant that each warp makes for itself: A's values from a stage in shared memory to registers, where all of a
// thread's rows of weights meet them.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_layout.cuh"
#include "tile/portable/mma.cuh"

namespace tilewright {

// Of `kSteps` instructions of 16 of K and eight tokens at a time, an even number.
template <GemmSm90DequantConfig kConfig, int kSteps>
class GemmSm90DequantWarpProducts {
 public:
  using Layout = GemmSm90DequantLayout<kConfig>;

  // `tokens`: address of a stage's A. One load brings 32 values of K: lane l names token l % 8 of their eight l / 8.
  __device__ __forceinline__ explicit GemmSm90DequantWarpProducts(unsigned tokens) {
    const unsigned lane = threadIdx.x % 32, token = lane % 8;
    base_ = tokens + token * kSkinnyRowBytes;
    first_ = (lane / 8 ^ token) * 16;
  }
  // The `range`-th kSteps of a stage.
  __device__ __forceinline__ void load(int range) {
#pragma unroll
    for (int i = 0; i < kSteps; i += 2) {
      // 128B swizzle: the second half of a row's 64 values is as far, one bit of the place apart.
      const int at = range * kSteps + i;
      unsigned four[4];
      load_matrices(four, base_ + at / 4 * Layout::kSliceBytes + (first_ ^ (at % 4 / 2 * 64)));
      held_[i][0] = four[0], held_[i][1] = four[1], held_[i + 1][0] = four[2], held_[i + 1][1] = four[3];
    }
  }
  __device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&weights)[4], int step) const {
    Mma<kConfig.dtype>::run(sum, weights, held_[step][0], held_[step][1]);
  }

 private:
  static_assert(kConfig.tokens == 8 && kSteps % 2 == 0);
  unsigned base_, first_, held_[kSteps][2];
};

}  // namespace tilewright
