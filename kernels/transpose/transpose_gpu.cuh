// SPDX-License-Identifier: MIT
// transpose_gpu: 16 bytes at a time from memory and to it. A thread transposes a square in registers; then pieces change threads, so that
// neighbours write neighbours. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row.cuh"
#include "transpose/transpose_args.hpp"

namespace tilewright {

// Rows of 16 bytes as columns. Words are moved whole, halves and bytes of as many rows as a word has are exchanged.
template <int kBytes, int kRows>
__device__ __forceinline__ void transpose_square(const unsigned (&row)[kRows][4],
                                                 unsigned (&column)[16 / kBytes][kRows * kBytes / 4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int k = 0; k < kRows * kBytes / 4; ++k) {
      const unsigned a = row[k * 4 / kBytes][i];
      if constexpr (kBytes == 4) {
        column[i][k] = a;
      } else if constexpr (kBytes == 2) {
        const unsigned b = row[2 * k + 1][i];
        column[2 * i][k] = (a & 0xFFFFu) | b << 16;
        column[2 * i + 1][k] = a >> 16 | (b & 0xFFFF0000u);
      } else {
        const unsigned b = row[4 * k + 1][i], c = row[4 * k + 2][i], d = row[4 * k + 3][i];
        const unsigned even_ab = (a & 0x00FF00FFu) | (b & 0x00FF00FFu) << 8;
        const unsigned even_cd = (c & 0x00FF00FFu) | (d & 0x00FF00FFu) << 8;
        const unsigned odd_ab = (a >> 8 & 0x00FF00FFu) | (b & 0xFF00FF00u);
        const unsigned odd_cd = (c >> 8 & 0x00FF00FFu) | (d & 0xFF00FF00u);
        column[4 * i][k] = (even_ab & 0xFFFFu) | even_cd << 16;
        column[4 * i + 1][k] = (odd_ab & 0xFFFFu) | odd_cd << 16;
        column[4 * i + 2][k] = even_ab >> 16 | (even_cd & 0xFFFF0000u);
        column[4 * i + 3][k] = odd_ab >> 16 | (odd_cd & 0xFFFF0000u);
      }
    }
  }
}

// Matrices of whole pieces of 16 bytes on both sides.
template <int kBytes>
__device__ __forceinline__ void transpose_pieces(const TransposeArgs& args) {
  constexpr int kEach = 16 / kBytes, kSide = transpose_side(kBytes), kRows = transpose_rows(kBytes);
  constexpr int kWords = kRows * kBytes / 4, kColumns = transpose_threads(kBytes) / kTransposePieces;
  const auto me = static_cast<int>(threadIdx.x);
  const int right = me % kTransposePieces, down = me / kTransposePieces;
  // Where a piece of a column of the tile stands: eight threads that write, or read, at a time have other banks each.
  auto* const tile_words = reinterpret_cast<unsigned*>(dynamic_shared());
  const auto piece_of = [&](int column, int piece) {
    return tile_words + (column * kTransposePieces + (piece ^ column / kEach)) * 4;
  };
  const long long tiles = transpose_tiles(args, kSide, kSide);
#pragma unroll 1
  for (long long index = blockIdx.x; index < tiles; index += args.grid) {
    const TransposeTile tile = transpose_tile(args, index, kSide, kSide);
    if (down * kRows < tile.rows && right * kEach < tile.columns) {
      unsigned row[kRows][4], column[kEach][kWords];
      const char* from = tile.x + (down * kRows * args.row_x + right * kEach) * kBytes;
#pragma unroll
      for (int i = 0; i < kRows; ++i, from += args.row_x * kBytes) {
        const Vector4<unsigned> words = load_vector4(reinterpret_cast<const unsigned*>(from));
        row[i][0] = words.x, row[i][1] = words.y, row[i][2] = words.z, row[i][3] = words.w;
      }
      transpose_square<kBytes, kRows>(row, column);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const unsigned(&words)[kWords] = column[i];
        unsigned* const to = piece_of(right * kEach + i, down * kWords / 4) + down * kWords % 4;
        if constexpr (kWords == 4) {
          store_vector4(to, Vector4<unsigned>{words[0], words[1], words[2], words[3]});
        } else {
          store_vector2(to, words[0], words[1]);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSide / kColumns; ++i) {
      const int column = i * kColumns + down;
      if (column >= tile.columns || right * kEach >= tile.rows) continue;
      char* const to = tile.out + (column * args.row_out + right * kEach) * kBytes;
      store_vector4(reinterpret_cast<unsigned*>(to), load_vector4(piece_of(column, right)));
    }
    __syncthreads();
  }
}

// Any: element by element, along rows on both sides.
__device__ __forceinline__ void transpose_elements(const TransposeArgs& args) {
  constexpr int kSide = transpose_side(0), kRows = transpose_threads(0) / kSide;
  const int right = static_cast<int>(threadIdx.x) % kSide, first = static_cast<int>(threadIdx.x) / kSide;
  auto* const words = reinterpret_cast<unsigned*>(dynamic_shared());
  const long long tiles = transpose_tiles(args, kSide, kSide);
#pragma unroll 1
  for (long long index = blockIdx.x; index < tiles; index += args.grid) {
    const TransposeTile tile = transpose_tile(args, index, kSide, kSide);
#pragma unroll 1
    for (int row = first; row < kSide; row += kRows) {
      if (row >= tile.rows || right >= tile.columns) continue;
      const char* const from = tile.x + (row * args.row_x + right) * args.bytes;
      words[row * (kSide + 1) + right] = args.bytes == 4   ? *reinterpret_cast<const unsigned*>(from)
                                         : args.bytes == 2 ? *reinterpret_cast<const unsigned short*>(from)
                                                           : *reinterpret_cast<const unsigned char*>(from);
    }
    __syncthreads();
#pragma unroll 1
    for (int column = first; column < kSide; column += kRows) {
      if (column >= tile.columns || right >= tile.rows) continue;
      char* const to = tile.out + (column * args.row_out + right) * args.bytes;
      const unsigned word = words[right * (kSide + 1) + column];
      if (args.bytes == 4) {
        *reinterpret_cast<unsigned*>(to) = word;
      } else if (args.bytes == 2) {
        *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(word);
      } else {
        *reinterpret_cast<unsigned char*>(to) = static_cast<unsigned char>(word);
      }
    }
    __syncthreads();
  }
}

template <TransposeConfig kConfig>
__device__ __forceinline__ void transpose_gpu(const TransposeArgs& args) {
  if constexpr (kConfig.bytes == 0) {
    transpose_elements(args);
  } else {
    transpose_pieces<kConfig.bytes>(args);
  }
}

}  // namespace tilewright
