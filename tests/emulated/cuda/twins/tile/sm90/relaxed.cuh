// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/relaxed.cuh.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright::sm90 {

inline void store_relaxed(uint4* to, uint4 v) {
  *to = v;
  emulated::tell_progress();
}
inline uint4 load_relaxed(const uint4* from) {
  emulated::let_others_run();
  return *from;
}

}  // namespace tilewright::sm90
