// SPDX-License-Identifier: MIT
// Bytes of several words in one, by byte permutations.
#pragma once

namespace tilewright {

// The lowest bytes of four words, the first word's lowest; and the highest.
__device__ __forceinline__ unsigned low_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
__device__ __forceinline__ unsigned high_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, d, 0x0073), 0x5410);
}
// The first and the third byte of two words.
__device__ __forceinline__ unsigned even_bytes(unsigned a, unsigned b) { return __byte_perm(a, b, 0x6420); }
// The second and the fourth.
__device__ __forceinline__ unsigned odd_bytes(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7531); }

}  // namespace tilewright
