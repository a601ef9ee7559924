// SPDX-License-Identifier: MIT
// Tiles in shared memory: where their 16-byte chunks lie, and how a block fills them from global memory. All sizes in
// bytes unless a name says otherwise. Rows are the outer dimension of the tile, bytes of a row the contiguous one.
#pragma once

#include "tile/portable/async_copy.cuh"

namespace tilewright {

// A tile of kRows rows whose chunks are permuted inside each 128 bytes, so that eight rows of one column of chunks (what
// ldmatrix reads) and eight neighbouring chunks of one row (what a copy writes) lie in different banks.
template <int kRows, int kRowBytes>
struct SwizzledTile {
  static_assert(kRowBytes == 32 || kRowBytes == 64 || kRowBytes % 128 == 0);
  static constexpr int kRowCount = kRows, kWidth = kRowBytes, kBytes = kRows * kRowBytes;
  static constexpr int kRowsPerLine = kRowBytes < 128 ? 128 / kRowBytes : 1;  // of 128 bytes
  static constexpr int kMask = kRowBytes < 128 ? kRowBytes / 16 - 1 : 7;

  __device__ __forceinline__ static int chunk_offset(int row, int chunk) {
    return row * kRowBytes + ((chunk ^ (row / kRowsPerLine & kMask)) * 16);
  }
  __device__ __forceinline__ static int offset(int row, int byte) { return chunk_offset(row, byte / 16) + byte % 16; }
};

// Rows with 16 bytes between them, for readers that take words of a row.
template <int kRows, int kRowBytes>
struct PaddedTile {
  static constexpr int kRowCount = kRows, kWidth = kRowBytes, kPitch = kRowBytes + 16, kBytes = kRows * kPitch;
  __device__ __forceinline__ static int chunk_offset(int row, int chunk) { return row * kPitch + chunk * 16; }
  __device__ __forceinline__ static int offset(int row, int byte) { return row * kPitch + byte; }
};

// Fills a tile from rows `stride` apart by copies of kCopy bytes, to which `from` and `stride` are aligned. What lies
// beyond `rows` rows or `width` bytes is zero; both may be negative.
template <class Tile, int kCopy, int kThreads>
__device__ __forceinline__ void copy_tile(unsigned tile, const char* from, long long stride, int rows, int width,
                                          int thread) {
  constexpr int kPerRow = Tile::kWidth / kCopy, kCopies = Tile::kRowCount * kPerRow;
  [[maybe_unused]] constexpr int kUnroll = kCopy == 16 ? (kCopies + kThreads - 1) / kThreads : 4;
#pragma unroll kUnroll
  for (int first = 0; first < kCopies; first += kThreads) {
    const int index = first + thread;
    if (kCopies % kThreads != 0 && index >= kCopies) break;
    const int row = index / kPerRow, byte = index % kPerRow * kCopy;
    const int left = row < rows ? width - byte : 0;
    const int valid = left < 0 ? 0 : left > kCopy ? kCopy : left;
    // An address that nothing is read from may be anything but outside the address space.
    const char* source = valid > 0 ? from + row * stride + byte : from;
    copy_async<kCopy>(tile + static_cast<unsigned>(Tile::offset(row, byte)), source, valid);
  }
}

// The same from elements of kSize bytes with any strides, `stride_row` and `stride_column` bytes apart. `columns`: elements
// of a row that are there. kAlongRow: which neighbours in memory neighbouring threads take.
//
// 4-byte elements are copied asynchronously. Smaller ones pass through registers, a word of a row at a time.
template <class Tile, int kSize, bool kAlongRow, int kThreads>
__device__ __forceinline__ void gather_tile(unsigned tile, const char* from, long long stride_row,
                                            long long stride_column, int rows, int columns, int thread) {
  constexpr int kPerWord = 4 / kSize, kWords = Tile::kWidth / 4, kCount = Tile::kRowCount * kWords;
  // Words of 4 bytes: eight along memory and four across a warp, so that transposing copies meet different banks.
  constexpr int kAlong = kAlongRow ? kWords : Tile::kRowCount, kAcross = kAlongRow ? Tile::kRowCount : kWords;
  constexpr int kSpan = kSize == 4 && kAlong % 8 == 0 ? 8 : kAlong;
  [[maybe_unused]] constexpr int kUnroll = 4;  // loads that wait in registers
#pragma unroll kUnroll
  for (int first = 0; first < kCount; first += kThreads) {
    const int index = first + thread;
    if (kCount % kThreads != 0 && index >= kCount) break;
    const int group = index / kSpan;
    const int along = group / kAcross * kSpan + index % kSpan, across = group % kAcross;
    const int row = kAlongRow ? across : along, word = kAlongRow ? along : across;
    const unsigned to = tile + static_cast<unsigned>(Tile::offset(row, word * 4));
    const int column = word * kPerWord;
    const char* source = from + row * stride_row + column * stride_column;
    if constexpr (kSize == 4) {
      const bool there = row < rows && column < columns;
      copy_async<4>(to, there ? source : from, there ? 4 : 0);
    } else {
      unsigned value = 0;
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) {
        if (row < rows && column + i < columns) {
          const char* element = source + i * stride_column;
          const unsigned bits = kSize == 2 ? *reinterpret_cast<const unsigned short*>(element)
                                           : *reinterpret_cast<const unsigned char*>(element);
          value |= bits << (8 * kSize * i);
        }
      }
      store_shared(to, value);
    }
  }
}

}  // namespace tilewright
