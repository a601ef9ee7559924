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

// The compiler takes it for another word: what follows from it is found again, not kept in registers that there are not.
__device__ __forceinline__ unsigned renewed(unsigned word) {
#if !defined(__AMDGCN__)
  asm volatile("" : "+r"(word));
#endif
  return word;
}
__device__ __forceinline__ float renewed(float x) {
  return __builtin_bit_cast(float, renewed(__builtin_bit_cast(unsigned, x)));
}

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
// Each block sends what it found to all, which wait for as many bytes at a barrier of their own: a barrier of the whole cluster that
// orders memory would take longer. Two places by turns: who sends for the next exchange is ahead of none that still reads the last one
// but one.
template <int kBlocks>
struct RowCluster {
  struct Shared {
    uint4 found[2][kBlocks * kRowFoundBytes / sizeof(uint4)];
    sm90::Barrier landed[2];
  };
  static_assert(kRowSharedBytes + sizeof(Shared) <= row_shared_bytes(kBlocks));
  unsigned turn = 0;

  __device__ __forceinline__ static Shared& shared() {
    return *reinterpret_cast<Shared*>(dynamic_shared() + kRowSharedBytes);
  }
  __device__ __forceinline__ static int rank() { return static_cast<int>(sm90::block_in_cluster()); }

  // By all threads of all blocks. Nobody sends before all have begun: the first exchange waits for that.
  __device__ __forceinline__ RowCluster() {
    if (threadIdx.x == 0) {
      sm90::init(shared().landed[0], 1), sm90::init(shared().landed[1], 1);
      sm90::fence_barrier_init();
    }
    sm90::arrive_cluster();
  }

  // What the first thread of each block found, by their ranks, in all threads; until the next exchange but one.
  template <class Found>
  __device__ __forceinline__ const Found* exchange(const Found& mine) {
    constexpr int kWords = sizeof(Found) / sizeof(uint4);
    static_assert(sizeof(Found) % sizeof(uint4) == 0 && sizeof(Found) <= kRowFoundBytes);
    if (turn == 0) sm90::wait_cluster();
    uint4* const found = shared().found[turn & 1];
    sm90::Barrier& landed = shared().landed[turn & 1];
    if (threadIdx.x == 0) {
      sm90::arrive_expect_bytes(landed, kBlocks * sizeof(Found));
      struct Words {
        uint4 word[kWords];
      };
      const Words words = __builtin_bit_cast(Words, mine);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          sm90::store_remote(&found[rank() * kWords + i], landed, static_cast<unsigned>(block), words.word[i]);
        }
      }
    }
    sm90::wait(landed, turn >> 1 & 1);
    ++turn;
    return reinterpret_cast<const Found*>(found);
  }

  // Of values that all threads of a block have alike, those of all blocks.
  template <int kValues, class Merge>
  __device__ __forceinline__ void reduce(float (&x)[kValues], Merge&& merge) {
    static_assert(kValues <= 2);
    const auto bits = [](float value) { return __builtin_bit_cast(unsigned, value); };
    const uint4* const found = exchange(uint4{bits(x[0]), bits(x[kValues - 1]), 0, 0});
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const float its[2] = {__builtin_bit_cast(float, found[block].x), __builtin_bit_cast(float, found[block].y)};
#pragma unroll
      for (int v = 0; v < kValues; ++v) x[v] = block == 0 ? its[v] : merge(x[v], its[v]);
    }
  }
};
#endif

}  // namespace tilewright
