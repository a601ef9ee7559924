// SPDX-License-Identifier: MIT
// Blocks of a cluster that share a row: what all of them found, in each of their threads. Clusters are sm_90's; elsewhere a row has one
// block.
#pragma once

#include "tile/common/row_args.hpp"
#include "tile/gpu/block.hpp"
#if !defined(__AMDGCN__)
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/remote_store.cuh"
#endif

namespace tilewright {

template <int kBlocks>
struct RowCluster;

// Alone.
template <>
struct RowCluster<1> {
  __device__ __forceinline__ static int rank() { return 0; }
  template <int kValues, class Merge>
  __device__ __forceinline__ void reduce(float (&)[kValues], Merge&&) {}
};

#if !defined(__AMDGCN__)
// Each block sends its values to all, which wait for as many bytes at a barrier of their own: a barrier of the whole cluster that orders
// memory would take longer. Two places by turns: who sends for the next reduction is ahead of none that still reads the last one but
// one.
template <int kBlocks>
struct RowCluster {
  struct Shared {
    uint4 found[2][kBlocks];
    sm90::Barrier landed[2];
  };
  static_assert(kRowSharedBytes + sizeof(Shared) <= row_shared_bytes(kBlocks));
  unsigned turn = 0;

  __device__ __forceinline__ static Shared& shared() {
    return *reinterpret_cast<Shared*>(dynamic_shared() + kRowSharedBytes);
  }
  __device__ __forceinline__ static int rank() { return static_cast<int>(sm90::block_in_cluster()); }

  // By all threads of all blocks. Nobody sends before all have begun: the first reduction waits for that.
  __device__ __forceinline__ RowCluster() {
    if (threadIdx.x == 0) {
      sm90::init(shared().landed[0], 1), sm90::init(shared().landed[1], 1);
      sm90::fence_barrier_init();
    }
    sm90::arrive_cluster();
  }

  // Of values that all threads of a block have alike, those of all blocks in the order of their ranks.
  template <int kValues, class Merge>
  __device__ __forceinline__ void reduce(float (&x)[kValues], Merge&& merge) {
    static_assert(kValues <= kRowReduced && kRowReduced == 2);
    if (turn == 0) sm90::wait_cluster();
    auto& found = shared().found[turn & 1];
    sm90::Barrier& landed = shared().landed[turn & 1];
    if (threadIdx.x == 0) sm90::arrive_expect_bytes(landed, sizeof(found));
    if (threadIdx.x < kBlocks) {
      const uint4 mine{__builtin_bit_cast(unsigned, x[0]), __builtin_bit_cast(unsigned, x[kValues - 1]), 0, 0};
      sm90::store_remote(&found[rank()], landed, threadIdx.x, mine);
    }
    sm90::wait(landed, turn >> 1 & 1);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float its[2] = {__builtin_bit_cast(float, found[block].x), __builtin_bit_cast(float, found[block].y)};
#pragma unroll
      for (int v = 0; v < kValues; ++v) x[v] = block == 0 ? its[v] : merge(x[v], its[v]);
    }
    ++turn;
  }
};
#endif

}  // namespace tilewright
