// SPDX-License-Identifier: MIT
// Bytes of several words in one, in integer arithmetic, of which the compiler makes byte permutations.
#pragma once

namespace tilewright {

// The lowest bytes of four words, the first word's lowest; and the highest.
__device__ __forceinline__ unsigned low_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24;
}
__device__ __forceinline__ unsigned high_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  return a >> 24 | b >> 24 << 8 | c >> 24 << 16 | (d & 0xFF000000u);
}
// The first and the third byte of two words.
__device__ __forceinline__ unsigned even_bytes(unsigned a, unsigned b) {
  return (a & 255) | (a >> 16 & 255) << 8 | (b & 255) << 16 | (b >> 16 & 255) << 24;
}

}  // namespace tilewright
