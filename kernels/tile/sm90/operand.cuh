// SPDX-License-Identifier: MIT
// A tile of an operand of wgmma: kRows rows of M (or columns of N) by the K that 128 bytes hold, brought by the copy engine
// and read by descriptors. kK: one box, each row 128 bytes of K. kMn: boxes of 64 elements of M or N, each row one k.
#pragma once

#include "tile/sm90/tma.cuh"
#include "tile/sm90/wgmma.cuh"

namespace tilewright::sm90 {

template <DType kType, Major kMajor, int kRows>
struct Operand {
  static constexpr int kRowBytes = 128;
  static constexpr int kTileK = kRowBytes * 8 / dtype_bits(kType);
  static constexpr int kBytes = kRows * kRowBytes;
  static constexpr int kBoxMn = 64;  // kMn: elements of a box's row
  static constexpr int kBoxBytes = kTileK * kRowBytes;
  static_assert(kMajor == Major::kK || dtype_bits(kType) == 16, "wgmma transposes 16-bit types only");

  // Rows [first, first + kCount) of the tile, which are rows mn... of the tensor, at k. With kShared, into all `blocks`.
  template <int kCount, bool kShared>
  __device__ __forceinline__ static void load(const TensorMap& map, unsigned char* tile, int first, Barrier& barrier,
                                              unsigned short blocks, int mn, int k, int batch) {
    static_assert(kMajor == Major::kK || kCount % kBoxMn == 0);
    if constexpr (kMajor == Major::kK) {
      copy<kShared>(map, tile + first * kRowBytes, barrier, blocks, k, mn, batch);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += kBoxMn) {
        copy<kShared>(map, tile + (first + i) / kBoxMn * kBoxBytes, barrier, blocks, mn + i, k, batch);
      }
    }
  }

  // Of the rows from `first` on (a multiple of 64; of 8 when K is contiguous).
  __device__ __forceinline__ static unsigned long long descriptor_at(const unsigned char* tile, int first) {
    const int offset = kMajor == Major::kK ? first * kRowBytes : first / kBoxMn * kBoxBytes;
    return descriptor<kMajor>(shared_address(tile) + offset, kBoxBytes);
  }

 private:
  template <bool kShared>
  __device__ __forceinline__ static void copy(const TensorMap& map, unsigned char* to, Barrier& barrier,
                                              unsigned short blocks, int c0, int c1, int c2) {
    if constexpr (kShared) {
      load_box_multicast(map, to, barrier, blocks, c0, c1, c2);
    } else {
      load_box(map, to, barrier, c0, c1, c2);
    }
  }
};

}  // namespace tilewright::sm90
