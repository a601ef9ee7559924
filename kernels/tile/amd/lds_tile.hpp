// SPDX-License-Identifier: MIT
// A tile in LDS: kRows of M or N, kRowBytes of K each, in chunks of 16 bytes that are permuted so that neither eight
// neighbouring rows at one chunk (fragments) nor eight that are four rows apart (transposed copies) share banks.
#pragma once

#include "tile/amd/memory.hpp"

namespace tilewright {

template <int kRows, int kRowBytes>
struct LdsTile {
  static_assert(kRowBytes == 64 || kRowBytes == 128 || kRowBytes == 256);
  static constexpr int kChunks = kRowBytes / 16, kBytes = kRows * kRowBytes;
  // Rows that fill the 128 bytes of all banks.
  static constexpr unsigned kRowsPerLine = kRowBytes < 128 ? 128 / kRowBytes : 1;
  static constexpr unsigned kMask = (kRowBytes < 128 ? kChunks : 8) - 1;

  __device__ __forceinline__ static constexpr unsigned phase(unsigned row) {
    return (row / kRowsPerLine ^ row >> 3) & kMask;
  }
  __device__ __forceinline__ static constexpr unsigned offset(unsigned row, unsigned chunk) {
    return row * kRowBytes + (chunk ^ phase(row)) * 16;
  }
};

}  // namespace tilewright
