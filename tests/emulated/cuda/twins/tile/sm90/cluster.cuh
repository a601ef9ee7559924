// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/cluster.cuh: each block is a cluster of its own, and blocks run one after another.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright::sm90 {

inline unsigned block_in_cluster() { return 0; }
inline unsigned cluster_id() { return blockIdx.x; }
inline unsigned cluster_count() { return gridDim.x; }
inline void arrive_cluster() {}
inline void wait_cluster() {}
inline void meet_cluster() {}
inline bool elect_one() { return emulated::lane() == 0; }
template <int kRegisters>
void release_registers() {}
template <int kRegisters>
void take_registers() {}
inline void wait_for_previous_kernel() {}
inline void allow_next_kernel() {}

}  // namespace tilewright::sm90
