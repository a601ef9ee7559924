// SPDX-License-Identifier: MIT
// One wave of gemm_amd: fragments from LDS, matrix instructions, sums in registers.
#pragma once

#include "gemm/amd/gemm_amd_args.hpp"
#include "tile/amd/lds_tile.hpp"
#if defined(__gfx950__)
#include "tile/cdna/scaled_step.hpp"
#endif
#if defined(__GFX9__)
#include "tile/cdna/matrix_step.hpp"
#else
#include "tile/rdna/matrix_step.hpp"
#endif

namespace tilewright {

#if defined(__gfx950__)
inline constexpr bool kHasScaledStep = true;
#else
inline constexpr bool kHasScaledStep = false;
#endif

template <GemmAmdConfig kConfig, bool kScaled>
struct AmdStep {
  using Type = MatrixStep<kConfig.dtype, kConfig.mma>;
};
#if defined(__gfx950__)
template <GemmAmdConfig kConfig>
struct AmdStep<kConfig, true> {
  using Type = ScaledStep<kConfig.b_dtype, kConfig.dtype, kConfig.mma>;
};
#endif

template <GemmAmdConfig kConfig>
struct AmdWave {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  // Floats of 8 and 4 bits on CDNA4: without scales these are 2^0.
  static constexpr bool kScaled = kHasScaledStep && is_block_scaled(kConfig.dtype);
  // f32 scales: the sums of a tile of K are added with the product of A's and B's.
  static constexpr bool kPromoted = kConfig.scale == DType::kF32;
  using Step = typename AmdStep<kConfig, kScaled>::Type;
  using ATile = LdsTile<kConfig.tile_m, kShape.a_row_bytes>;
  using BTile = LdsTile<kConfig.tile_n, kShape.b_row_bytes>;
  static constexpr int kM = kShape.blocks_m, kN = kShape.blocks_n;
  static constexpr int kDepth = Step::kDepth, kSteps = kConfig.tile_k / kDepth;
  static constexpr int kAChunks = kDepth * dtype_bits(kConfig.dtype) / 128 / Step::kGroups,
                       kBChunks = kDepth * dtype_bits(kConfig.b_dtype) / 128 / Step::kGroups;
  static_assert(Step::kWave == kConfig.wave && kConfig.tile_k % kDepth == 0);

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

  // Chunk c of a lane in a step: those of a row's groups of lanes follow each other, then come the next ones.
  struct Fragments {
    Words4 a[kM][kAChunks], b[kN][kBChunks];
  };
  __device__ __forceinline__ void read(Fragments& f, Lds lds, unsigned stage, int step) const {
    const int row = lane % kConfig.mma, group = lane / kConfig.mma % Step::kGroups;
#pragma unroll
    for (int c = 0; c < kBChunks; ++c) {
      const auto chunk = static_cast<unsigned>((step * kBChunks + c) * Step::kGroups + group);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        f.b[j][c] = read_lds(lds, stage + ATile::kBytes + BTile::offset(static_cast<unsigned>(b_row(j) + row), chunk));
      }
    }
#pragma unroll
    for (int c = 0; c < kAChunks; ++c) {
      const auto chunk = static_cast<unsigned>((step * kAChunks + c) * Step::kGroups + group);
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        f.a[i][c] = read_lds(lds, stage + ATile::offset(static_cast<unsigned>(a_row(i) + row), chunk));
      }
    }
  }
  // The block scales of a tile: of 128 of K a word, moved so that its lowest byte is that of the lane's own 32.
  struct Scales {
    static constexpr int kWords = (kConfig.tile_k + kAmdScaleWord - 1) / kAmdScaleWord;
    unsigned a[kM][kWords], b[kN][kWords];
  };
  __device__ __forceinline__ void read([[maybe_unused]] Scales& s, [[maybe_unused]] Lds lds,
                                       [[maybe_unused]] unsigned stage) const {
    if constexpr (kConfig.scale_copy != 0) {
      const int row = lane % kConfig.mma, group = lane / kConfig.mma;
      const unsigned first = stage + kShape.a_bytes + kShape.b_bytes;
      const auto read_row = [&](int place, unsigned(&words)[Scales::kWords]) {
        using Row = VectorOf<unsigned, Scales::kWords>;
        const Row found = *(TILEWRIGHT_LDS const Row*)(lds + first + static_cast<unsigned>(place) * sizeof(Row));
#pragma unroll
        for (int w = 0; w < Scales::kWords; ++w) words[w] = kPromoted ? found[w] : found[w] >> (8 * group);
      };
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        read_row(kShape.a_scales / Scales::kWords + b_row(j) + (kPromoted ? 0 : row), s.b[j]);
      }
#pragma unroll
      for (int i = 0; i < kM; ++i) read_row(a_row(i) + row, s.a[i]);
    }
  }
  using AllSums = typename Step::Sums[kM][kN];
  __device__ __forceinline__ static void multiply(AllSums& to, const Fragments& f, [[maybe_unused]] const Scales& s,
                                                  [[maybe_unused]] int step) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        if constexpr (kScaled) {
          constexpr unsigned kOne = 0x7F7F7F7F;
          const int word = step * kDepth / kAmdScaleWord;
          const unsigned of_a = kConfig.scale == DType::kE8M0 ? s.a[i][word] : kOne;
          const unsigned of_b = kConfig.scale == DType::kE8M0 ? s.b[j][word] : kOne;
          Step::multiply(to[i][j], f.b[j], f.a[i], of_b, of_a, step * kDepth / kAmdScaleDepth % 4);
        } else {
          Step::multiply(to[i][j], f.b[j], f.a[i]);
        }
      }
    }
  }
  // A tile of K; `between` runs first. The compiler reads fragments ahead as far as registers go, which on RDNA
  // are those of two steps.
  template <class Between>
  __device__ __forceinline__ void multiply(Lds lds, unsigned stage, const Between& between) {
    constexpr int kTogether = kConfig.wave == 64 || kSteps <= 2 ? kSteps : 2;
    between();
    Scales s;
    read(s, lds, stage);
    if constexpr (kPromoted) return promote(lds, stage, s);
#pragma unroll 1
    for (int first = 0; first < kSteps; first += kTogether) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        Fragments f;
        read(f, lds, stage, first + i);
        multiply(sums, f, s, first + i);
      }
    }
  }
  // D is transposed: all of a lane's sums in a block are of one row of A.
  __device__ __forceinline__ void promote(Lds lds, unsigned stage, const Scales& s) {
    AllSums fresh = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Fragments f;
      read(f, lds, stage, step);
      multiply(fresh, f, s, step);
    }
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const float scale = __uint_as_float(s.a[i][0]) * __uint_as_float(s.b[j][0]);
#pragma unroll
        for (int e = 0; e < Step::kSums; ++e) sums[i][j][e] = fmaf(fresh[i][j][e], scale, sums[i][j][e]);
      }
    }
  }
};

}  // namespace tilewright
