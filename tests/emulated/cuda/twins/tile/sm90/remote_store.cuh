// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/remote_store.cuh: what is stored lands when somebody of that block waits at the barrier.
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

inline void arrive_remote_expect_bytes(Barrier& barrier, unsigned block, unsigned bytes) {
  arrive_expect_bytes(barrier_of(barrier, block), bytes);
}
template <class Value>
void store_remote(void* to, Barrier& barrier, unsigned block, const Value& v) {
  static_assert(sizeof(v) == 8 || sizeof(v) == 16);
  if (emulated::blocks_in_cluster() < 2) emulated::fail("a store to a block of a cluster, in a launch without one");
  const unsigned at = shared_address(to);
  if (emulated::shared_at(at, sizeof(v)) == nullptr) return;
  std::memset(emulated::shared_memory_of(block) + at, 0xFF, sizeof(v));  // until it lands
  copies_under_way[{emulated::block_of_cluster(block), &barrier}].push_back(
      {[at, v] { std::memcpy(emulated::shared_memory + at, &v, sizeof(v)); }, static_cast<int>(sizeof(v))});
}
inline void store_remote(void* to, Barrier& barrier, unsigned block, uint4 v) {
  store_remote<uint4>(to, barrier, block, v);
}

}  // namespace tilewright::sm90
