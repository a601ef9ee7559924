// SPDX-License-Identifier: MIT
// A tile in LDS: kRows of M or N, kRowBytes of K each, in chunks of 16 bytes that are permuted so that rows that one pass
// of the banks reads at one chunk (fragments) share none: eight neighbours, or, as ds_read_b128 takes lanes on CDNA, rows 0 to 3
// and 20 to 23 and so on. Eight rows that are four apart (transposed copies) share none or, of 64 bytes, two by two.
#pragma once

#include "tile/amd/memory.hpp"

namespace tilewright {

template <int kRows, int kRowBytes>
struct LdsTile {
  static_assert(kRowBytes == 64 || kRowBytes == 128 || kRowBytes == 256);
  static constexpr int kChunks = kRowBytes / 16, kBytes = kRows * kRowBytes;

  __device__ __forceinline__ static constexpr unsigned phase(unsigned row) {
    if constexpr (kRowBytes == 64) return (row >> 1 ^ (row >> 3 & 1)) & 3;
    return (row ^ row >> 3) & (kChunks - 1);
  }
  // Where a row lies among the others: of 64 banks two rows of 128 bytes are a line, and four rows on it is the other half.
  __device__ __forceinline__ static constexpr unsigned place(unsigned row) {
    return kRowBytes == 128 ? row ^ (row >> 2 & 1) : row;
  }
  __device__ __forceinline__ static constexpr unsigned offset(unsigned row, unsigned chunk) {
    return place(row) * kRowBytes + (chunk ^ phase(row)) * 16;
  }
};

}  // namespace tilewright
