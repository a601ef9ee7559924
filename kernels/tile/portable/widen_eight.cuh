// SPDX-License-Identifier: MIT
// Eight narrow weights at a time to four pairs of bf16 or f16: one word of 4-bit types, two of 8 bits.
#pragma once

#include "tile/portable/widen_weights.cuh"

namespace tilewright {

// kZeroed: `by` has a zero point.
template <DType kWeight, DType kTo, bool kZeroed>
__device__ __forceinline__ void widen_eight(const unsigned* words, const WidenOperands& by, unsigned (&pairs)[4]) {
  if constexpr (dtype_bits(kWeight) == 4) {
    pairs[0] = widen_pair<kWeight, kTo, 0, kZeroed>(words[0], by);
    pairs[1] = widen_pair<kWeight, kTo, 1, kZeroed>(words[0], by);
    pairs[2] = widen_pair<kWeight, kTo, 2, kZeroed>(words[0], by);
    pairs[3] = widen_pair<kWeight, kTo, 3, kZeroed>(words[0], by);
  } else {
    pairs[0] = widen_pair<kWeight, kTo, 0, kZeroed>(words[0], by);
    pairs[1] = widen_pair<kWeight, kTo, 1, kZeroed>(words[0], by);
    pairs[2] = widen_pair<kWeight, kTo, 0, kZeroed>(words[1], by);
    pairs[3] = widen_pair<kWeight, kTo, 1, kZeroed>(words[1], by);
  }
}

}  // namespace tilewright
