// SPDX-License-Identifier: MIT
// One wave of gemm_amd: fragments from LDS, matrix instructions, sums in registers.
#pragma once

#include "gemm/amd/gemm_amd_args.hpp"
#include "tile/amd/lds_tile.hpp"
#if defined(__GFX9__)
#include "tile/cdna/matrix_step.hpp"
#else
#include "tile/rdna/matrix_step.hpp"
#endif

namespace tilewright {

template <GemmAmdConfig kConfig>
struct AmdWave {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  using Step = MatrixStep<kConfig.dtype, kConfig.mma>;
  using ATile = LdsTile<kConfig.tile_m, kShape.row_bytes>;
  using BTile = LdsTile<kConfig.tile_n, kShape.row_bytes>;
  static constexpr int kM = kShape.blocks_m, kN = kShape.blocks_n;
  static constexpr int kSteps = kShape.row_bytes / Step::kStepBytes;
  static_assert(Step::kWave == kConfig.wave && kShape.row_bytes % Step::kStepBytes == 0);

  // D transposed: rows of B are the instruction's first operand, so that a lane's sums are neighbours along N.
  typename Step::Sums sums[kM][kN];
  int wave_m, wave_n, lane;

  __device__ __forceinline__ explicit AmdWave(int thread) {
    const int wave = thread / kConfig.wave;
    lane = thread % kConfig.wave;
    wave_m = wave % kConfig.waves_m, wave_n = wave / kConfig.waves_m;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) sums[i][j] = typename Step::Sums{};
    }
  }

  // First row of block i of A, and of block j of B, in the tile. Of gate and up a wave has the same columns.
  __device__ __forceinline__ int a_row(int i) const { return wave_m * kShape.wave_rows + i * kConfig.mma; }
  __device__ __forceinline__ int b_row(int j) const {
    if constexpr (kConfig.gate != GateMode::kSeparated) return wave_n * kShape.wave_columns + j * kConfig.mma;
    constexpr int kHalf = kN / 2;
    return j / kHalf * (kConfig.tile_n / 2) + wave_n * (kShape.wave_columns / 2) + j % kHalf * kConfig.mma;
  }

  struct Fragments {
    Words4 a[kM][Step::kChunks], b[kN][Step::kChunks];
  };
  __device__ __forceinline__ void read(Fragments& f, Lds lds, unsigned stage, int step) const {
    const int row = lane % kConfig.mma, group = lane / kConfig.mma % Step::kGroups;
#pragma unroll
    for (int c = 0; c < Step::kChunks; ++c) {
      const auto chunk = static_cast<unsigned>((step * Step::kGroups + group) * Step::kChunks + c);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        f.b[j][c] = read_lds(lds, stage + ATile::kBytes + BTile::offset(static_cast<unsigned>(b_row(j) + row), chunk));
      }
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        f.a[i][c] = read_lds(lds, stage + ATile::offset(static_cast<unsigned>(a_row(i) + row), chunk));
      }
    }
  }
  __device__ __forceinline__ void multiply(const Fragments& f) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) Step::multiply(sums[i][j], f.b[j], f.a[i]);
    }
  }
  // A tile of K; `between` runs first. The compiler reads fragments ahead as far as registers go, which on RDNA
  // are those of two steps.
  template <class Between>
  __device__ __forceinline__ void multiply(Lds lds, unsigned stage, const Between& between) {
    constexpr int kTogether = kConfig.wave == 64 || kSteps <= 2 ? kSteps : 2;
    between();
#pragma unroll 1
    for (int first = 0; first < kSteps; first += kTogether) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        Fragments f;
        read(f, lds, stage, first + i);
        multiply(f);
      }
    }
  }
};

}  // namespace tilewright
