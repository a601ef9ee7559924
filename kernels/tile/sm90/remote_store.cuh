// SPDX-License-Identifier: MIT
// Words into the shared memory of another block of the cluster, or of this one, that count at a barrier there when they land.
// PTX ISA, "st.async", "mapa".
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

// At that block's `barrier`: arrives, and promises bytes that stores will bring.
__device__ __forceinline__ void arrive_remote_expect_bytes(Barrier& barrier, unsigned block, unsigned bytes) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [remote], %2;\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(block), "r"(bytes)
      : "memory");
}
// Sixteen bytes, to a multiple of 16. Who waits at the barrier sees them.
__device__ __forceinline__ void store_remote(void* to, Barrier& barrier, unsigned block, uint4 v) {
  asm volatile(
      "{\n"
      ".reg .b32 address, remote;\n"
      "mapa.shared::cluster.u32 address, %0, %2;\n"
      "mapa.shared::cluster.u32 remote, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [address], {%3, %4, %5, %6}, [remote];\n"
      "}\n" ::"r"(shared_address(to)),
      "r"(shared_address(&barrier)), "r"(block), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}
// A struct of eight or sixteen bytes, to a multiple of as many.
template <class Value>
__device__ __forceinline__ void store_remote(void* to, Barrier& barrier, unsigned block, const Value& v) {
  if constexpr (sizeof(Value) == 16) {
    store_remote(to, barrier, block, __builtin_bit_cast(uint4, v));
  } else {
    static_assert(sizeof(Value) == 8);
    asm volatile(
        "{\n"
        ".reg .b32 address, remote;\n"
        "mapa.shared::cluster.u32 address, %0, %2;\n"
        "mapa.shared::cluster.u32 remote, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [address], %3, [remote];\n"
        "}\n" ::"r"(shared_address(to)),
        "r"(shared_address(&barrier)), "r"(block), "l"(__builtin_bit_cast(unsigned long long, v))
        : "memory");
  }
}

}  // namespace tilewright::sm90
