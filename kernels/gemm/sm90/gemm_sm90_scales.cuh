// SPDX-License-Identifier: MIT
// Block scales of gemm_sm90: a float for each row of A and block of 128 columns of B in a tile of 128 of K. They come with the
// tile's bytes, word by word, and multiply what was summed apart.
#pragma once

#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "tile/sm90/word_copy.cuh"

namespace tilewright {

// A warp brings them: each thread some rows' of the tile, and one block's.
template <GemmSm90Config kConfig>
class GemmSm90ScaleLoader {
 public:
  // The tile at row `m` and column `n` of B (of a separated gate's first half), from step `step` of K on.
  __device__ __forceinline__ void begin(const GemmScaleArgs& scale, const GemmArgs& gemm, int m, int n, int batch,
                                        int step) {
    const int lane = threadIdx.x % 32;
    const float* const rows =
        static_cast<const float*>(scale.a.data) + batch * scale.a.stride_batch + step * scale.a.stride_k;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      has_row_[i] = m + lane + i * 32 < gemm.m;
      row_[i] = has_row_[i] ? rows + (m + lane + i * 32) * scale.a.stride_outer : rows;
    }
    n = n / kPromotedScaleBlock * kPromotedScaleBlock +
        lane * (kConfig.gate == GateMode::kSeparated ? static_cast<int>(gemm.n / 2) : kPromotedScaleBlock);
    has_block_ = n < gemm.n;
    block_ = static_cast<const float*>(scale.b.data) + batch * scale.b.stride_batch + step * scale.b.stride_k;
    if (has_block_) block_ += n / kPromotedScaleBlock * scale.b.stride_outer;
  }
  // Those of the next step, into a stage.
  __device__ __forceinline__ void load(const GemmScaleArgs& scale, const GemmSm90Layout<kConfig>& shared, int stage) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      sm90::copy_word(shared.row_scales(stage) + lane + i * 32, row_[i], has_row_[i]);
      row_[i] += scale.a.stride_k;
    }
    if (lane < gemm_sm90_scale_blocks(kConfig)) {
      sm90::copy_word(shared.block_scales(stage) + lane, block_, has_block_);
      block_ += scale.b.stride_k;
    }
    sm90::arrive_with_words(shared.full(stage));
  }

 private:
  static constexpr int kRows = kConfig.tile_m / 32;
  const float* row_[kRows];
  const float* block_;
  bool has_row_[kRows], has_block_;
};

// What a thread's sums of 64 rows and an instruction's columns are multiplied by: the scale of its upper row and of the one eight
// below, and of each block of columns.
template <GemmSm90Config kConfig>
struct GemmSm90Scale {
  static constexpr bool kWhole = gemm_sm90_columns_at_once(kConfig) % kPromotedScaleBlock == 0;  // one block
  static constexpr int kBlocks = kWhole ? 1 : gemm_sm90_scale_blocks(kConfig);
  static constexpr int kSums = gemm_sm90_columns_at_once(kConfig) / 2;
  static constexpr int kPiece = gemm_sm90_scale_columns(kConfig) / 2;  // sums that share a block wherever the tile lies
  float upper_row[1], lower_row[1], block[kBlocks];
  int inside;  // columns of the first block in front of the tile

  // From here on they may be multiplied: a compiler that did it earlier would have products wait for them.
  __device__ __forceinline__ void pin() { sm90::pin(upper_row), sm90::pin(lower_row), sm90::pin(block); }
  __device__ __forceinline__ void multiply(float* sum) const {
    each([&](int i, float scale) { sum[i] *= scale; });
  }
  __device__ __forceinline__ void add(float* sum, const float (&apart)[kSums]) const {
    each([&](int i, float scale) { sum[i] = __fmaf_rn(apart[i], scale, sum[i]); });
  }

 private:
  // visit(sum, scale)
  template <class Visit>
  __device__ __forceinline__ void each(Visit&& visit) const {
    float upper[kBlocks], lower[kBlocks];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) upper[b] = upper_row[0] * block[b], lower[b] = lower_row[0] * block[b];
#pragma unroll
    for (int first = 0; first < kSums; first += kPiece) {
      const int b = kWhole ? 0 : first * 2 / kPromotedScaleBlock, next = b + 1 < kBlocks ? b + 1 : b;
      const bool is_next = !kWhole && first * 2 % kPromotedScaleBlock + inside >= kPromotedScaleBlock;
      const float u = is_next ? upper[next] : upper[b], l = is_next ? lower[next] : lower[b];
#pragma unroll
      for (int i = first; i < first + kPiece; ++i) visit(i, i % 4 < 2 ? u : l);
    }
  }
};
// None.
struct GemmSm90NoScale {
  __device__ __forceinline__ void pin() {}
  __device__ __forceinline__ void multiply(float*) const {}
  template <int kCount>
  __device__ __forceinline__ void add(float* sum, const float (&apart)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += apart[i];
  }
};

// A warpgroup's scales in the stages.
template <GemmSm90Config kConfig>
class GemmSm90TileScales {
 public:
  // Of the tile whose D begins at column `n`.
  __device__ GemmSm90TileScales(const GemmSm90Layout<kConfig>& shared, int warpgroup, int n)
      : shared_(shared),
        row_(warpgroup * GemmSm90Layout<kConfig>::kRows64 * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4),
        inside_(n * (kConfig.gate == GateMode::kInterleaved ? 2 : 1) % kPromotedScaleBlock) {}
  // Of the r-th 64 rows, and the instruction's columns from `n` on.
  __device__ __forceinline__ auto of([[maybe_unused]] int stage, [[maybe_unused]] int r, [[maybe_unused]] int n) const {
    if constexpr (kConfig.promote == Promotion::kScaled) {
      GemmSm90Scale<kConfig> scale;
      const float* const rows = shared_.row_scales(stage) + row_ + r * 64;
      scale.upper_row[0] = rows[0], scale.lower_row[0] = rows[8];
#pragma unroll
      for (int b = 0; b < scale.kBlocks; ++b) {
        scale.block[b] = shared_.block_scales(stage)[n / kPromotedScaleBlock + b];
      }
      scale.inside = inside_;
      return scale;
    } else {
      return GemmSm90NoScale{};
    }
  }

 private:
  const GemmSm90Layout<kConfig> shared_;
  const int row_, inside_;
};

}  // namespace tilewright
