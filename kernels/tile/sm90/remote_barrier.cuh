// SPDX-License-Identifier: MIT
// A row of barriers in another block of the cluster, whose address is found once. PTX ISA 8.0, "mapa".
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

class RemoteBarriers {
 public:
  // `first` and those after it, in `block`.
  __device__ __forceinline__ RemoteBarriers(Barrier& first, unsigned block) {
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address_) : "r"(shared_address(&first)), "r"(block));
  }
  // Without a scope of the cluster, as arrive_remote().
  __device__ __forceinline__ void arrive(int index) const {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_ + index * 8) : "memory");
  }
  // As arrive_after().
  __device__ __forceinline__ void arrive_after(int index, unsigned loaded) const {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" ::"r"(address_ + index * 8), "r"(one_after(loaded))
                 : "memory");
  }

 private:
  unsigned address_;
};

}  // namespace tilewright::sm90
