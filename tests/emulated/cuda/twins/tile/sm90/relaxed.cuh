// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/relaxed.cuh.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright::sm90 {

inline void store_relaxed(uint4* to, uint4 v) { *to = v; }
inline uint4 load_relaxed(const uint4* from) { return *from; }

}  // namespace tilewright::sm90
