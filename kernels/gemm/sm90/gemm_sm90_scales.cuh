// SPDX-License-Identifier: MIT
// Block scales of gemm_sm90: a float for each row of A and block of 128 columns of B in a tile of 128 of K. They come with the
// tile's bytes, and multiply what was summed apart.
#pragma once

#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "tile/sm90/byte_copy.cuh"
#include "tile/sm90/word_copy.cuh"

namespace tilewright {

// Scales of A that lie along M, columns at multiples of 16 bytes, come as one copy, asked for by one thread; others word by word,
// by a warp. Those of B come as words.
__device__ __forceinline__ bool gemm_sm90_scales_along_m(const GemmBlockScale& a) {
  return a.stride_outer == 1 && (a.stride_k | a.stride_batch) % 4 == 0 &&
         reinterpret_cast<unsigned long long>(a.data) % 16 == 0;
}

template <GemmSm90Config kConfig, bool kAlongM>
class GemmSm90ScaleLoader {
 public:
  __device__ explicit GemmSm90ScaleLoader(const GemmScaleArgs& scale)
      : step_a_(scale.a.stride_k), step_b_(scale.b.stride_k) {}

  // The tile at row `m`: as much of it as its bytes need.
  __device__ __forceinline__ void count(const GemmArgs& gemm, int m) {
    rows_ = static_cast<int>(gemm.m) - m - lane();
    bytes_ = kAlongM ? max(0, min(kConfig.tile_m, rows_ / 4 * 4)) * 4 : 0;
  }
  // The rest, behind its first copies: at column `n` of B (of a separated gate's first half), from step `step` of K on.
  __device__ __forceinline__ void begin(const GemmScaleArgs& scale, const GemmArgs& gemm, int m, int n, int batch,
                                        int step) {
    row_ = static_cast<const float*>(scale.a.data) + batch * scale.a.stride_batch + step * step_a_;
    if (rows_ > 0) row_ += (m + lane()) * scale.a.stride_outer;
    n = n / kPromotedScaleBlock * kPromotedScaleBlock;
    const int apart = kConfig.gate == GateMode::kSeparated ? static_cast<int>(gemm.n / 2) : kPromotedScaleBlock;
    block_ = static_cast<const float*>(scale.b.data) + batch * scale.b.stride_batch + step * step_b_ +
             n / kPromotedScaleBlock * scale.b.stride_outer;
    next_block_ = apart / kPromotedScaleBlock * scale.b.stride_outer;
    blocks_ = n >= gemm.n ? 0 : (static_cast<int>(gemm.n) - n + apart - 1) / apart;
  }
  // Of a stage, beside its words.
  __device__ __forceinline__ unsigned bytes() const { return bytes_; }
  // Those of the next step, into a stage.
  __device__ __forceinline__ void load(const GemmScaleArgs& scale, const GemmSm90Layout<kConfig>& shared, int stage) {
    const auto load_block = [&](int i) {
      sm90::copy_word(shared.block_scales(stage) + i, i < blocks_ ? block_ + i * next_block_ : block_, i < blocks_);
    };
    if constexpr (kAlongM) {
      if (bytes_ > 0) sm90::copy_bytes(shared.row_scales(stage), row_, bytes_, shared.full(stage));
#pragma unroll 1
      for (int i = bytes_ / 4; i < min(rows_, kConfig.tile_m); ++i) {
        sm90::copy_word(shared.row_scales(stage) + i, row_ + i, true);
      }
#pragma unroll
      for (int i = 0; i < gemm_sm90_scale_blocks(kConfig); ++i) load_block(i);
    } else {
      // No copies side by side: their addresses would take more registers than the producer has.
      const float* from = row_;
#pragma unroll 1
      for (int i = 0; i < kConfig.tile_m; i += 32) {
        sm90::copy_word(shared.row_scales(stage) + lane() + i, from, i < rows_);
        if (i + 32 < rows_) from += 32 * scale.a.stride_outer;
      }
      if (lane() < gemm_sm90_scale_blocks(kConfig)) load_block(lane());
    }
    row_ += step_a_, block_ += step_b_;
    sm90::arrive_with_words(shared.full(stage));
  }

 private:
  __device__ __forceinline__ static int lane() { return kAlongM ? 0 : threadIdx.x % 32; }

  const int64 step_a_, step_b_;
  const float *row_, *block_;
  int64 next_block_;
  int rows_, bytes_, blocks_;  // what is left of A's rows from this thread's on; of blocks from the first on
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
  // Of all of them.
  __device__ __forceinline__ unsigned bits() const {
    unsigned all = __float_as_uint(upper_row[0]) | __float_as_uint(lower_row[0]);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) all |= __float_as_uint(block[b]);
    return all;
  }
  __device__ __forceinline__ void begin(float* sum, const float (&apart)[kSums]) const {
    each([&](int i, float scale) { sum[i] = apart[i] * scale; });
  }
  __device__ __forceinline__ void add(float* sum, const float (&apart)[kSums]) const {
    each([&](int i, float scale) { sum[i] = __fmaf_rn(apart[i], scale, sum[i]); });
  }
  // The same for sums that wgmma wrote, which stand at places as even as what is added: neighbours change places, so that the three
  // that are read meet no bank of registers thrice.
  __device__ __forceinline__ void turn(float* sum) const {
    float before = 0.0f;
    each([&](int i, float scale) {
      const float scaled = sum[i] * scale;
      if (i % 2 == 0) before = scaled;
      if (i % 2 == 1) sum[i - 1] = scaled, sum[i] = before;
    });
  }
  __device__ __forceinline__ void add_turned(float* sum, const float (&apart)[kSums]) const {
    each([&](int i, float scale) { sum[i ^ 1] = __fmaf_rn(apart[i], scale, sum[i ^ 1]); });
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
  __device__ __forceinline__ unsigned bits() const { return 0; }
  // Added to a zero that the compiler does not know: sums that were the same registers as what is summed apart would have the next
  // product wait.
  template <int kCount>
  __device__ __forceinline__ void begin(float* sum, const float (&apart)[kCount]) const {
    float zero[1] = {0.0f};
    sm90::pin(zero);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] = apart[i] + zero[0];
  }
  template <int kCount>
  __device__ __forceinline__ void add(float* sum, const float (&apart)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += apart[i];
  }
  template <int kCount>
  __device__ __forceinline__ void add_turned(float* sum, const float (&apart)[kCount]) const {
    add(sum, apart);  // two are read
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
