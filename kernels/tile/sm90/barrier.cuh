// SPDX-License-Identifier: MIT
// Barriers of sm_90: mbarriers in shared memory, which count arrivals and bytes, and the named barriers of a block.
// PTX ISA 8.0, "mbarrier", "barrier".
#pragma once

#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

// One phase completes when all arrivals came and all promised bytes landed; waiters name the phase by its parity.
struct alignas(8) Barrier {
  unsigned long long state;
};

__device__ __forceinline__ void init(Barrier& barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
// After init: other blocks of the cluster and the copy engine see the barriers.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// 1, whatever the bits are that a load brings: what takes it waits for the load.
__device__ __forceinline__ unsigned one_after(unsigned loaded) {
  unsigned one;
  asm volatile(
      "max.u32 %0, %1, 1;\n"
      "min.u32 %0, %0, 1;"
      : "=&r"(one)
      : "r"(loaded));
  return one;
}
// The same after `loaded`, bits that this warp loaded from memory which the arrival gives back, have come. An arrival is ordered after
// such loads in the program only: it overtakes those that wait behind other warps' loads.
__device__ __forceinline__ void arrive_after(Barrier& barrier, unsigned loaded) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(one_after(loaded))
               : "memory");
}
// The same by the threads that `there` names, without a branch: between products that go on ptxas allows none.
__device__ __forceinline__ void arrive_after_where(bool there, Barrier& barrier, unsigned loaded) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %0, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%1], %2;\n"
      "}\n" ::"r"(static_cast<unsigned>(there)),
      "r"(shared_address(&barrier)), "r"(one_after(loaded))
      : "memory");
}
// At the same barrier of another block of the cluster. Without a scope of the cluster, which would cost a fence over the
// whole device: what is signalled is that wgmma has read a tile, and the copy engine's next write is ordered after that.
__device__ __forceinline__ void arrive_remote(Barrier& barrier, unsigned block) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(block)
      : "memory");
}
__device__ __forceinline__ void arrive_remote_after(Barrier& barrier, unsigned block, unsigned loaded) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote], %2;\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(block), "r"(one_after(loaded))
      : "memory");
}
// Arrives, and promises bytes that copies will bring.
__device__ __forceinline__ void arrive_expect_bytes(Barrier& barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void wait(Barrier& barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}
// Whether the phase is complete, without waiting.
__device__ __forceinline__ bool is_complete(Barrier& barrier, unsigned parity) {
  unsigned complete;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(complete)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return complete != 0;
}
// `threads` of the block meet at barrier `id` (1..15; 0 is the whole block's).
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// The same without waiting.
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
}  // namespace tilewright::sm90
