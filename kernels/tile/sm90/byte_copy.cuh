// SPDX-License-Identifier: MIT
// Bytes as they lie, from global to shared memory by the copy engine, without a tensor map. PTX ISA 8.0, "cp.async.bulk".
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

// One thread asks; they complete at the barrier. Addresses and number are multiples of 16.
__device__ __forceinline__ void copy_bytes(void* to, const void* from, unsigned bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}
// The same under a policy of tma.cuh.
__device__ __forceinline__ void copy_bytes_once(void* to, const void* from, unsigned bytes, Barrier& barrier,
                                                unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}

}  // namespace tilewright::sm90
