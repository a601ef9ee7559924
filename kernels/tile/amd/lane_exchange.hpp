// SPDX-License-Identifier: MIT
// Values of other lanes. Source: AMD CDNA3 ISA reference, DS_BPERMUTE_B32.
#pragma once

#include "tile/amd/words.hpp"

namespace tilewright {

// What the lane has whose number differs in the bits of `distance`, below 32.
__device__ __forceinline__ float lane_xor(float x, unsigned distance) {
  const unsigned source = (threadIdx.x ^ distance) & 63u;
  return __builtin_bit_cast(float,
                            __builtin_amdgcn_ds_bpermute(static_cast<int>(source << 2), __builtin_bit_cast(int, x)));
}

}  // namespace tilewright
