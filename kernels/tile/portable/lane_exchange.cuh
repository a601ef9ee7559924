// SPDX-License-Identifier: MIT
// Values of other lanes.
#pragma once

namespace tilewright {

// What the lane has whose number differs in the bits of `distance`, below 32.
__device__ __forceinline__ float lane_xor(float x, unsigned distance) {
  return __shfl_xor_sync(0xFFFFFFFFu, x, static_cast<int>(distance));
}

}  // namespace tilewright
