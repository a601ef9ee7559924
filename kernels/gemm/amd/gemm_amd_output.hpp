// SPDX-License-Identifier: MIT
// From a wave's sums to D, through the wave's own part of LDS, so that D is written in long rows; and to the workspace and
// back, in the order of the registers.
#pragma once

#include "gemm/amd/gemm_amd_multiply.hpp"
#include "gemm/gpu/gemm_tile_store_gpu.cuh"

namespace tilewright {

template <GemmAmdConfig kConfig>
struct AmdOutput {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  using Wave = AmdWave<kConfig>;
  using Step = typename Wave::Step;
  using Sum = typename Step::Element;
  using Quad = VectorOf<Sum, 4>;
  static constexpr int kQuads = Step::kSums / 4;
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated,
                        kInterleaved = kConfig.gate == GateMode::kInterleaved;
  static constexpr int kUnit = kShape.unit_columns / kConfig.mma;  // blocks side by side
  static constexpr int kUnits = Wave::kN / kUnit;
  static constexpr int kUnitOut = kConfig.gate == GateMode::kNone ? kShape.unit_columns : kShape.unit_columns / 2;
  using Epilogue = GemmEpilogue<kConfig.epilogue_config()>;

  // Block of B at place `at` of unit u: with a separated gate, the gate's come first.
  __device__ __forceinline__ static constexpr int block(int u, int at) {
    if constexpr (!kSeparated) return u * kUnit + at;
    constexpr int kHalf = kUnit / 2;
    return at / kHalf * (Wave::kN / 2) + u * kHalf + at % kHalf;
  }

  // D from row m0 and column n0 on, by units: rows of blocks of the wave's, `first` is the first of them in the tile.
  template <int kRows>
  __device__ __forceinline__ static void write(const Wave& wave, int first, const Epilogue& epilogue, Lds lds, int64 m0,
                                               int64 n0, int64 all_n) {
    const int index = wave.wave_m + wave.wave_n * kConfig.waves_m;
    const auto region = static_cast<unsigned>(index * kShape.unit_bytes);
    const auto* sums = (const Sum*)(lds + region);
    // One copy of what stores: only the way out of the registers differs from unit to unit.
#pragma unroll 1
    for (int unit = 0; unit < kRows * kUnits; ++unit) {
      const int64 m = m0 + wave.a_row(first + unit / kUnits), left = epilogue.rows() - m;
      if (left <= 0) break;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          if (unit != i * kUnits + u) continue;
#pragma unroll
          for (int at = 0; at < kUnit; ++at) put(wave, wave.sums[i][block(u, at)], lds, region, at);
        }
      }
      join_wave();
      const int column = (wave.wave_n * kUnits + unit % kUnits) * kUnitOut;
      store_sums<kConfig.epilogue_config(), kShape.unit_columns, kConfig.wave>(
          epilogue, sums, kShape.pitch, m, n0 + column, all_n,
          left < kConfig.mma ? static_cast<int>(left) : kConfig.mma, wave.lane);
      join_wave();
    }
  }

  // The sums of one block to its columns of the unit, [row][column].
  __device__ __forceinline__ static void put(const Wave& wave, const typename Step::Sums& sums, Lds lds,
                                             unsigned region, int at) {
    const int row = wave.lane % kConfig.mma;
    const auto place = [&](int i) {
      return region + static_cast<unsigned>((row * kShape.pitch + at * kConfig.mma + Step::row(wave.lane, i)) * 4);
    };
    if constexpr (Step::kRun % 4 == 0) {
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const Quad quad{sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]};
        write_lds(lds, place(4 * q), __builtin_bit_cast(Words4, quad));
      }
    } else {
#pragma unroll
      for (int i = 0; i < Step::kSums; ++i) *(TILEWRIGHT_LDS Sum*)(lds + place(i)) = sums[i];
    }
  }

  // Place of a lane's quad of block (i, j) in a partial tile.
  __device__ __forceinline__ static int64 place(int i, int j, int quad, int thread) {
    return ((static_cast<int64>(i) * Wave::kN + j) * kQuads + quad) * kShape.threads + thread;
  }
  __device__ __forceinline__ static void save(const Wave& wave, Quad* to, int thread) {
#pragma unroll
    for (int i = 0; i < Wave::kM; ++i) {
#pragma unroll
      for (int j = 0; j < Wave::kN; ++j) {
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
          const auto& sums = wave.sums[i][j];
          to[place(i, j, q, thread)] = Quad{sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]};
        }
      }
    }
  }
  // Adds row i of blocks of a partial tile to row 0 of the wave's.
  __device__ __forceinline__ static void add(Wave& wave, const Quad* from, int i, int thread) {
#pragma unroll
    for (int j = 0; j < Wave::kN; ++j) {
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const Quad quad = from[place(i, j, q, thread)];
#pragma unroll
        for (int e = 0; e < 4; ++e) wave.sums[0][j][4 * q + e] += quad[e];
      }
    }
  }
};

}  // namespace tilewright
