// SPDX-License-Identifier: MIT
// Matrix multiplication by a warpgroup, 128 threads: D [64, N] (+)= A [64, K] B [K, N], operands in shared memory under
// the 128-byte swizzle, accumulators in registers. Thread t of the warpgroup holds, for j in [0, N / 8),
//   d[4 j + 0], d[4 j + 1]: row 16 (t / 32) + t % 32 / 4,     columns 8 j + 2 (t % 4) and the next;
//   d[4 j + 2], d[4 j + 3]: the row 8 below.
// PTX ISA 8.0, "Asynchronous warpgroup level matrix instructions".
#pragma once

#include "tile/common/major.hpp"
#include "tile/generated/wgmma_sm90.cuh"
#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

// Registers that wgmma writes must not be touched from here on until wait_products.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving reads of accumulators above a wait.
template <class T, int kCount>
__device__ __forceinline__ void pin(T (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (sizeof(T) == 4 && static_cast<T>(0.5f) != T{}) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else {
      asm volatile("" : "+r"(registers[i])::"memory");
    }
  }
}

// A tile at `address`, a multiple of 1024. kK: rows of 128 bytes, groups of eight rows 1024 bytes apart. kMn: for each
// 64 elements of M or N a box of K rows of 128 bytes, boxes `box_bytes` apart.
template <Major kMajor>
__device__ __forceinline__ unsigned long long descriptor(unsigned address, unsigned box_bytes) {
  constexpr unsigned long long kSwizzle128 = 1ull << 62;
  constexpr unsigned long long kGroupStride = 1024ull >> 4 << 32;
  const unsigned long long leading = kMajor == Major::kK ? 1ull : box_bytes >> 4;
  return kSwizzle128 | kGroupStride | leading << 16 | (address & 0x3FFFF) >> 4;
}
// From one instruction's K to the next one's, in descriptor units. kK: 32 bytes in the row; kMn: 16 rows.
template <Major kMajor>
constexpr unsigned long long kDescriptorStep = kMajor == Major::kK ? 2 : 128;

}  // namespace tilewright::sm90
