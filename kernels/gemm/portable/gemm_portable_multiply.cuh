// SPDX-License-Identifier: MIT
// What one warp of gemm_portable multiplies: a stage in shared memory into sums in registers, and the sums to where the
// epilogue reads them. Two forms with one interface: WarpMma (mma.sync) and WarpFma (f32 multiply-adds).
#pragma once

#include "gemm/portable/gemm_portable_load.cuh"
#include "tile/portable/mma.cuh"

namespace tilewright {

// kWidth of M or N by kDepth of K, as fragments of 16 x 32 bytes of K. `first`: the warp's first row or column.
template <class Tile, bool kMnTile, bool kIsA>
struct FragmentReader {
  unsigned row, phase, chunk;

  __device__ __forceinline__ FragmentReader(int lane, int first) {
    // Matrices 0 and 1 of A lie along M, those of B along K; rows of the tile are M or N, or K.
    const int low = lane >> 3 & 1, high = lane >> 4, along_mn = kIsA ? low : high, along_k = kIsA ? high : low;
    if constexpr (kMnTile) {
      row = static_cast<unsigned>((lane & 7) + along_k * 8);
      chunk = static_cast<unsigned>(first / 8 + along_mn);
    } else {
      row = static_cast<unsigned>(first + (lane & 7) + along_mn * 8);
      chunk = static_cast<unsigned>(along_k);
    }
    phase = row / Tile::kRowsPerLine & Tile::kMask;
    row *= Tile::kWidth;
  }

  // The fragment at 16 * block rows or columns from the first, step * 32 bytes of K. Sixteen rows on, chunks are permuted
  // in the same way.
  __device__ __forceinline__ void read(unsigned (&r)[4], unsigned tile, int block, int step) const {
    if constexpr (kMnTile) {
      const unsigned at = static_cast<unsigned>(step * 16 * Tile::kWidth);
      load_matrices_transposed(r, tile + row + at + ((chunk + static_cast<unsigned>(block * 2)) ^ phase) * 16);
    } else {
      const unsigned at = static_cast<unsigned>(block * 16 * Tile::kWidth);
      load_matrices(r, tile + row + at + ((chunk + static_cast<unsigned>(step * 2)) ^ phase) * 16);
    }
  }
};

template <GemmPortableConfig kConfig, class ATile, class BTile>
struct WarpMma {
  static constexpr GemmPortableShape kShape = gemm_portable_shape(kConfig);
  static constexpr int kM = kConfig.tile_m / kConfig.warps_m / 16, kN = kConfig.tile_n / kConfig.warps_n / 16;
  static constexpr int kSteps = kConfig.tile_k * kShape.size / 32;
  static constexpr int kPartWidth = kConfig.tile_n / kShape.b_parts;
  using Instruction = Mma<kConfig.dtype>;
  using Sum = typename Instruction::Accumulator;

  Sum sums[kM][2 * kN][4] = {};
  int warp_m, warp_n, lane;

  __device__ __forceinline__ explicit WarpMma(int thread) {
    const int warp = thread / 32;
    lane = thread % 32;
    warp_m = warp % kConfig.warps_m * kM * 16;
    warp_n = warp / kConfig.warps_m * kN * 16;
  }

  __device__ __forceinline__ void read(unsigned (&a)[kM][4], unsigned (&b)[kN][4], unsigned a_tile, unsigned b_tile,
                                       int step) const {
    const FragmentReader<ATile, kShape.a_mn_tile, true> a_reader(lane, warp_m);
    const FragmentReader<BTile, kShape.b_mn_tile, false> b_reader(lane, warp_n % kPartWidth);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      a_reader.read(a[i], a_tile, i, step);
      if constexpr (kConfig.mma == PortableMma::kTf32) {
        for (int j = 0; j < 4; ++j) a[i][j] = round_tf32(a[i][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      b_reader.read(b[i], b_tile + static_cast<unsigned>((warp_n / kPartWidth + i * 16 / kPartWidth) * kShape.b_bytes),
                    i % (kPartWidth / 16), step);
      if constexpr (kConfig.mma == PortableMma::kTf32) {
        for (int j = 0; j < 4; ++j) b[i][j] = round_tf32(b[i][j]);
      }
    }
  }

  // Fragments of the next step are under way while this one's multiply.
  __device__ __forceinline__ void multiply(unsigned a_tile, unsigned b_tile) {
    unsigned a[2][kM][4], b[2][kN][4];
    read(a[0], b[0], a_tile, b_tile, 0);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step + 1 < kSteps) read(a[(step + 1) % 2], b[(step + 1) % 2], a_tile, b_tile, step + 1);
#pragma unroll
      for (int i = 0; i < kM; ++i) {
#pragma unroll
        for (int j = 0; j < kN; ++j) {
          const unsigned(&y)[4] = b[step % 2][j];
          Instruction::run(sums[i][2 * j], a[step % 2][i], y[0], y[1]);
          Instruction::run(sums[i][2 * j + 1], a[step % 2][i], y[2], y[3]);
        }
      }
    }
  }

  // visit(row, column, first, second) for each pair of neighbours of the block's tile.
  template <class Visit>
  __device__ __forceinline__ void for_pairs(Visit visit) const {
    const int row = warp_m + lane / 4, column = warp_n + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * kN; ++j) {
        visit(row + i * 16, column + j * 8, sums[i][j][0], sums[i][j][1]);
        visit(row + i * 16 + 8, column + j * 8, sums[i][j][2], sums[i][j][3]);
      }
    }
  }
};

// Lanes of a warp stand 4 x 8; each takes four rows by four columns, and again every 16 rows and every 32 columns.
template <GemmPortableConfig kConfig, class ATile, class BTile>
struct WarpFma {
  static constexpr GemmPortableShape kShape = gemm_portable_shape(kConfig);
  static constexpr int kM = kConfig.tile_m / kConfig.warps_m / 16, kN = kConfig.tile_n / kConfig.warps_n / 32;
  static constexpr int kPartWidth = kConfig.tile_n / kShape.b_parts;
  using Sum = float;

  float sums[kM * 4][kN * 4] = {};
  int first_m, first_n;

  __device__ __forceinline__ explicit WarpFma(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    first_m = warp % kConfig.warps_m * kM * 16 + lane / 8 * 4;
    first_n = warp / kConfig.warps_m * kN * 32 + lane % 8 * 4;
  }

  __device__ __forceinline__ void multiply(unsigned a_tile, unsigned b_tile) {
#pragma unroll
    for (int k = 0; k < kConfig.tile_k; ++k) {
      float a[kM][4], b[kN][4];
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        load_shared(a[i], a_tile + static_cast<unsigned>(ATile::offset(k, (first_m + i * 16) * 4)));
      }
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const int n = first_n + j * 32;
        load_shared(b[j], b_tile + static_cast<unsigned>(n / kPartWidth * kShape.b_bytes +
                                                         BTile::offset(k, n % kPartWidth * 4)));
      }
#pragma unroll
      for (int i = 0; i < kM * 4; ++i) {
#pragma unroll
        for (int j = 0; j < kN * 4; ++j) sums[i][j] = fmaf(a[i / 4][i % 4], b[j / 4][j % 4], sums[i][j]);
      }
    }
  }

  template <class Visit>
  __device__ __forceinline__ void for_pairs(Visit visit) const {
#pragma unroll
    for (int i = 0; i < kM * 4; ++i) {
#pragma unroll
      for (int j = 0; j < kN * 4; j += 2) {
        visit(first_m + i / 4 * 16 + i % 4, first_n + j / 4 * 32 + j % 4, sums[i][j], sums[i][j + 1]);
      }
    }
  }
};

}  // namespace tilewright
