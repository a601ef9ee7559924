// SPDX-License-Identifier: MIT
// Twin of kernels/tile/portable/warp_count.cuh.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright {

inline unsigned count_warp(unsigned* counter) {
  __syncwarp();
  unsigned before = 0;
  if (emulated::lane() == 0) before = (*counter)++, emulated::tell_progress();
  before = __shfl_sync(0xFFFFFFFF, before, 0);
  __syncwarp();
  return before;
}
inline void wait_count(const unsigned* counter, unsigned count) {
  emulated::wait_until([&] { return *counter >= count; });
  __syncwarp();
}

}  // namespace tilewright
