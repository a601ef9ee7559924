// SPDX-License-Identifier: MIT
// Warps of a block that meet without waiting: each counts itself in shared memory when its work stands there, and who comes
// last takes all of it.
#pragma once

namespace tilewright {

// All lanes of a warp. What they wrote before is seen by whom the count says so. Returns how many came before.
__device__ __forceinline__ unsigned count_warp(unsigned* counter) {
  __syncwarp();
  unsigned before = 0;
  if (threadIdx.x % 32 == 0) {
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(counter)))
                 : "memory");
  }
  before = __shfl_sync(0xFFFFFFFF, before, 0);
  __syncwarp();
  return before;
}
// All lanes of a warp: until `count` have come.
__device__ __forceinline__ void wait_count(const unsigned* counter, unsigned count) {
  unsigned have;
  do {
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
                 : "=r"(have)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(counter)))
                 : "memory");
  } while (have < count);
  __syncwarp();
}

}  // namespace tilewright
