// SPDX-License-Identifier: MIT
// Four neighbours of M or N, a row each of K, into four chunks of 16 bytes along K: v_perm_b32.
#pragma once

#include "tile/amd/memory.hpp"

namespace tilewright {

// Bytes 0 to 3 are those of `low`, 4 to 7 those of `high`; the selector's lowest byte names the result's.
__device__ __forceinline__ unsigned permute_bytes(unsigned high, unsigned low, unsigned selector) {
  return __builtin_amdgcn_perm(high, low, selector);
}

// kSize: bytes of an element. rows[k] holds elements 0 to 3 of row k; chunks[i] gets element i of every row.
template <int kSize>
struct Transpose;

template <>
struct Transpose<4> {
  using Row = Words4;
  static constexpr int kDepth = 4;
  __device__ __forceinline__ static void run(const Row (&rows)[4], Words4 (&chunks)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) chunks[i] = Words4{rows[0][i], rows[1][i], rows[2][i], rows[3][i]};
  }
};

template <>
struct Transpose<2> {
  using Row = Words2;
  static constexpr int kDepth = 8;
  __device__ __forceinline__ static void run(const Row (&rows)[8], Words4 (&chunks)[4]) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned even = rows[2 * pair][half], odd = rows[2 * pair + 1][half];
        chunks[2 * half][pair] = permute_bytes(odd, even, 0x05040100u);
        chunks[2 * half + 1][pair] = permute_bytes(odd, even, 0x07060302u);
      }
    }
  }
};

template <>
struct Transpose<1> {
  using Row = unsigned;
  static constexpr int kDepth = 16;
  __device__ __forceinline__ static void run(const Row (&rows)[16], Words4 (&chunks)[4]) {
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      const unsigned a = rows[4 * quad], b = rows[4 * quad + 1], c = rows[4 * quad + 2], d = rows[4 * quad + 3];
      // Elements 0 and 1, 2 and 3 of two rows, then of four.
      const unsigned ab_low = permute_bytes(b, a, 0x05010400u), ab_high = permute_bytes(b, a, 0x07030602u);
      const unsigned cd_low = permute_bytes(d, c, 0x05010400u), cd_high = permute_bytes(d, c, 0x07030602u);
      chunks[0][quad] = permute_bytes(cd_low, ab_low, 0x05040100u);
      chunks[1][quad] = permute_bytes(cd_low, ab_low, 0x07060302u);
      chunks[2][quad] = permute_bytes(cd_high, ab_high, 0x05040100u);
      chunks[3][quad] = permute_bytes(cd_high, ab_high, 0x07060302u);
    }
  }
};

__device__ __forceinline__ void load_row(const char* base, unsigned offset, Words4& row) {
  row = load_words4(base, offset);
}
__device__ __forceinline__ void load_row(const char* base, unsigned offset, Words2& row) {
  row = load_words2(base, offset);
}
__device__ __forceinline__ void load_row(const char* base, unsigned offset, unsigned& row) {
  row = load_word(base, offset);
}

}  // namespace tilewright
