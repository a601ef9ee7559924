// SPDX-License-Identifier: MIT
// Sums across the bytes of a word and across the lanes of a warp.
#pragma once

namespace tilewright {

// sum + the products of the four signed bytes of both words.
__device__ __forceinline__ int add_byte_products(int sum, unsigned x, unsigned y) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(sum));
  return result;
}

// Of all lanes, in every lane: pairs 16 apart first, then 8, 4, 2, 1.
template <class Sum>
__device__ __forceinline__ Sum warp_sum(Sum x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, distance);
  return x;
}

}  // namespace tilewright
