// SPDX-License-Identifier: MIT
// Words between registers and shared memory of sm_90.
#pragma once

#include "tile/sm90/memory.cuh"

namespace tilewright::sm90 {

__device__ __forceinline__ unsigned load_word(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
__device__ __forceinline__ uint2 load_two_words(unsigned address) {
  uint2 words;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address) : "memory");
  return words;
}

}  // namespace tilewright::sm90
