// SPDX-License-Identifier: MIT
// The largest of what all blocks of a cluster found, where these are a call's only ones: one launch then finds a tensor's scale and writes its codes. sm_90's.
#pragma once

#include "tile/gpu/row_cluster.cuh"

namespace tilewright {

#if defined(__AMDGCN__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900)
inline constexpr bool kHasClusters = false;
#else
inline constexpr bool kHasClusters = true;
#endif
// Whether a kernel has that step.
template <RowGpuConfig kConfig>
inline constexpr bool kFindsTogether = kHasClusters && finds_together(kConfig);

#if !defined(__AMDGCN__)
// What each block found, by their ranks, behind what threads of a block meet in.
struct LargestOfBlocks {
  uint4 found[kLargeCluster];
  sm90::Barrier landed;

  __device__ __forceinline__ static LargestOfBlocks& shared() {
    return *reinterpret_cast<LargestOfBlocks*>(dynamic_shared() + kRowSharedBytes);
  }
  // By all threads, before any of them finds something: all blocks have barriers then. One block alone is no cluster to the hardware.
  __device__ __forceinline__ static void begin() {
    if (gridDim.x == 1) return;
    if (threadIdx.x == 0) {
      sm90::init(shared().landed, 1);
      sm90::fence_barrier_init();
      sm90::arrive_expect_bytes(shared().landed, gridDim.x * sizeof(uint4));
    }
    sm90::arrive_cluster();
  }
  // By all threads, once: of each block's, which all of its threads have.
  __device__ __forceinline__ static float of_all(float most) {
    if (gridDim.x == 1) return most;
    LargestOfBlocks& all = shared();
    sm90::wait_cluster();
    if (threadIdx.x < gridDim.x) {
      sm90::store_remote(&all.found[sm90::block_in_cluster()], all.landed, threadIdx.x,
                         uint4{__builtin_bit_cast(unsigned, most), 0, 0, 0});
    }
    sm90::wait(all.landed, 0);
#pragma unroll 1
    for (unsigned block = 0; block < gridDim.x; ++block)
      most = at_least(__builtin_bit_cast(float, all.found[block].x), most);
    return most;
  }
};
static_assert(kRowSharedBytes + sizeof(LargestOfBlocks) <= kRowLargestBytes);
#endif

// The same steps where there are none of them.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void begin_largest() {
#if !defined(__AMDGCN__)
  if constexpr (kFindsTogether<kConfig>) LargestOfBlocks::begin();
#endif
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ float largest_of_blocks(float most) {
#if !defined(__AMDGCN__)
  if constexpr (kFindsTogether<kConfig>) return LargestOfBlocks::of_all(most);
#endif
  return most;
}

}  // namespace tilewright
