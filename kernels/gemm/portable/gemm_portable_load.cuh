// SPDX-License-Identifier: MIT
// A or B of gemm_portable on its way from global to shared memory: one tile of tile_k columns of K at a time.
#pragma once

#include "gemm/portable/gemm_portable_shape.hpp"
#include "tile/portable/shared_tile.cuh"

namespace tilewright {

// A tile in shared memory, kWidth of M or N by kDepth of K.
template <PortableMma kMma, bool kMnTile, int kWidth, int kDepth, int kSize>
struct PortableTile {
  using Type = SwizzledTile<kMnTile ? kDepth : kWidth, (kMnTile ? kWidth : kDepth) * kSize>;
};
template <int kWidth, int kDepth, int kSize>
struct PortableTile<PortableMma::kFma, true, kWidth, kDepth, kSize> {
  using Type = PaddedTile<kDepth, kWidth * kSize>;
};

// kMnTile: rows of the tile are K. kCopy, kMajor: as in the config.
template <class Tile, bool kMnTile, Major kMajor, int kCopy, int kDepth, int kSize, int kThreads>
struct PortableOperand {
  const char* data;           // at the tile's first row or column and the first column of K
  int64 stride_mn, stride_k;  // bytes
  int width;                  // of M or N from there on, or anything beyond the tile
  int64 depth;                // of K from there on

  // Columns [k, k + kDepth) of K.
  __device__ __forceinline__ void load(unsigned tile, int64 k, int thread) const {
    const int64 rest = depth - k;
    const int left = rest < kDepth ? static_cast<int>(rest) : kDepth;
    const char* from = data + k * stride_k;
    if constexpr (kCopy != 0 && kMnTile) {
      copy_tile<Tile, kCopy, kThreads>(tile, from, stride_k, left, width * kSize, thread);
    } else if constexpr (kCopy != 0) {
      copy_tile<Tile, kCopy, kThreads>(tile, from, stride_mn, width, left * kSize, thread);
    } else if constexpr (kMnTile) {
      gather_tile<Tile, kSize, kMajor == Major::kMn, kThreads>(tile, from, stride_k, stride_mn, left, width, thread);
    } else {
      gather_tile<Tile, kSize, kMajor == Major::kK, kThreads>(tile, from, stride_mn, stride_k, width, left, thread);
    }
  }
};

}  // namespace tilewright
