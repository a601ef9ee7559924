// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/cluster.cuh: blocks of a cluster run by turns, clusters one after another.
#pragma once

#include "emulated/cuda/cuda_words.hpp"

namespace tilewright::sm90 {

inline unsigned block_in_cluster() { return emulated::block_in_cluster(); }
inline unsigned cluster_id() { return blockIdx.x / emulated::blocks_in_cluster(); }
inline unsigned cluster_count() { return gridDim.x / emulated::blocks_in_cluster(); }
inline void arrive_cluster() { emulated::arrive_cluster(); }
inline void wait_cluster() { emulated::wait_cluster(); }
inline void meet_cluster() {
  arrive_cluster();
  wait_cluster();
}
inline bool elect_one() { return emulated::lane() == 0; }
template <int kRegisters>
void release_registers() {}
template <int kRegisters>
void take_registers() {}

}  // namespace tilewright::sm90
