// SPDX-License-Identifier: MIT
// What a block of gemv_dequant_gpu works on, tile after tile, and how a warp brings lines of weights with their scales.
#pragma once

#include "gemm/gpu/gemv_output_gpu.cuh"
#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "tile/portable/scale_bits.cuh"
#include "tile/portable/stream_load.cuh"

namespace tilewright {

// A slice of K of a tile. Tiles [begin, end) pass a slice of K before the next slice comes; all are of one entry of the batch.
struct GemvDequantUnit {
  int tile, slice, begin, end, batch;
};

// The units of this block, one after another. It has consecutive tiles.
class GemvDequantWork {
 public:
  __device__ __forceinline__ explicit GemvDequantWork(const GemvDequantGpuCut& cut) : cut_(cut) {
    const auto block = static_cast<int>(blockIdx.x);
    first_ = block * cut.share + min(block, cut.extra);
    last_ = first_ + cut.share + (block < cut.extra ? 1 : 0);
  }
  __device__ __forceinline__ GemvDequantUnit first() const { return from(first_); }
  // tile = end: there is none.
  __device__ __forceinline__ GemvDequantUnit after(GemvDequantUnit u) const {
    if (++u.tile < u.end) return u;
    if (++u.slice < cut_.slices) return {u.begin, u.slice, u.begin, u.end, u.batch};
    return from(u.end);
  }

 private:
  __device__ __forceinline__ GemvDequantUnit from(int tile) const {
    const int batch = cut_.of_batch >= last_ ? 0 : tile / cut_.of_batch;
    int end = min(last_, (batch + 1) * cut_.of_batch);
    if (cut_.slices > 1) end = min(end, tile + kGemvDequantHeld);
    return {tile, 0, tile, end, batch};
  }
  const GemvDequantGpuCut& cut_;
  int first_, last_;
};

// A lane's part of a line: of rows l / 4 and l / 4 + 8 of each 16, the (l % 4)-th piece.
template <GemvDequantGpuConfig kConfig>
struct GemvDequantLine {
  static constexpr int kTiles = kConfig.rows / 16, kRows = 2 * kTiles, kWords = gemv_dequant_gpu_piece(kConfig) / 4;
  static constexpr bool kScaled = kConfig.scale != DType::kNone, kZeroed = kConfig.zero != DType::kNone;
  unsigned words[kRows][kWords];
  unsigned scale[kScaled ? kRows : 1];
  unsigned zero[kZeroed ? kRows : 1];  // the byte, and where in it
  unsigned zero_shift[kZeroed ? kRows : 1];
};

template <GemvDequantGpuConfig kConfig>
class GemvDequantLoad {
 public:
  using Line = GemvDequantLine<kConfig>;
  static constexpr int kPieceK = gemv_dequant_gpu_piece_k(kConfig), kLineK = gemv_dequant_gpu_line_k(kConfig);

  __device__ __forceinline__ explicit GemvDequantLoad(const GemvDequantGpuArgs& args)
      : args_(args.product), cut_(args.cut), k_end_(static_cast<int>(args.product.gemm.k)) {}

  // Goes to the first step of a unit. Of none nothing is there.
  __device__ __forceinline__ void begin(const GemvDequantUnit& u) {
    const auto lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const GemmArgs& gemm = args_.gemm;
    const int first = (u.tile - u.batch * cut_.of_batch) * kOfHalf, n = first + lane / 4;
    k_ = (u.slice * kConfig.warps + warp) * cut_.steps * kConfig.depth * kLineK;
    n_left_ = static_cast<int>(gemm.n) / kHalves - n;
    is_whole_ = first + kOfHalf <= static_cast<int>(gemm.n) / kHalves;
    if (u.tile >= u.end) k_ = k_end_;
    const int own = k_ + lane % 4 * kPieceK;
    const int64 at = u.batch * gemm.stride_b_batch + times(n, gemm.stride_b_n) + own;
    rows_ = static_cast<const char*>(gemm.b) + at * kBits / 8;
    if constexpr (Line::kScaled) {
      const int64 scale = group_at(args_.scale.b, u.batch, n, own);
      scales_ = static_cast<const char*>(args_.scale.b.data) + scale * kScaleBytes;
    }
    if constexpr (Line::kZeroed) zeros_ = group_at(args_.zero_b, u.batch, n, own);
  }
  // The next step of the same unit. Scales and zero points have come along.
  __device__ __forceinline__ void advance() {
    k_ += kConfig.depth * kLineK;
    rows_ += kConfig.depth * kLineBytes;
  }

  // Line i of the step. Lines of a step are loaded one after another.
  __device__ __forceinline__ void load(Line& line, int i) {
    if (is_whole_ && k_ + kConfig.depth * kLineK <= k_end_) {
      load<true>(line, i);
    } else {
      load<false>(line, i);
    }
  }

 private:
  static constexpr bool kFolds = narrow_weights_fold(kConfig);
  static constexpr int kBits = dtype_bits(kConfig.weight), kPiece = gemv_dequant_gpu_piece(kConfig);
  static constexpr int kHalves = kConfig.gate == GateMode::kSeparated ? 2 : 1, kOfHalf = kConfig.rows / kHalves;
  static constexpr int kLineBytes = 4 * kPiece, kScaleBytes = dtype_bits(kConfig.scale) / 8;

  template <bool kWhole>
  __device__ __forceinline__ void load(Line& line, int i) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int k = k_ + i * kLineK, own = k + lane % 4 * kPieceK;
    // What is there of a line has a scale; of a line that has one group, for all four lanes.
    const bool there = kWhole || own < k_end_, scaled = kWhole || (kFolds ? own : k) < k_end_;
#pragma unroll
    for (int r = 0; r < Line::kRows; ++r) {
      // Rows are eight apart; those of up follow on those of a separated gate.
      const bool is_row = kWhole || r % (Line::kRows / kHalves) * 8 < n_left_;
      load_stream_words<kWhole>(line.words[r], rows_ + row_at(r, args_.gemm.stride_b_n) * kBits / 8 + i * kLineBytes,
                                there && is_row);
      if constexpr (Line::kScaled) {
        const char* const at = scales_ + row_at(r, args_.scale.b.stride_outer) * kScaleBytes;
        line.scale[r] = scaled && is_row ? load_scale_bits<kConfig.scale>(at) : 0;
      }
      if constexpr (Line::kZeroed) {
        constexpr int kInByte = 8 / dtype_bits(kConfig.zero);
        const int64 at = zeros_ + row_at(r, args_.zero_b.stride_outer);
        const auto* const data = static_cast<const unsigned char*>(args_.zero_b.data);
        line.zero[r] = scaled && is_row ? data[at / kInByte] : 0;
        line.zero_shift[r] = at % kInByte * 4;
      }
    }
    const int groups = groups_after(k);
    if constexpr (Line::kScaled) scales_ += times(groups, args_.scale.b.stride_k) * kScaleBytes;
    if constexpr (Line::kZeroed) zeros_ += times(groups, args_.zero_b.stride_k);
  }
  // Groups from a lane's value of a line to that of the next line.
  __device__ __forceinline__ static int groups_after(int k) {
    if constexpr (kConfig.group == 0) return 0;
    if constexpr (kLineK >= kConfig.group) return kLineK / kConfig.group;
    return (k + kLineK) % kConfig.group == 0 ? 1 : 0;
  }
  // From row l / 4 of the tile to row r of this lane, in elements.
  __device__ __forceinline__ int64 row_at(int r, int64 stride) const {
    constexpr int kOf = Line::kRows / kHalves;
    const int64 up = r >= kOf ? times(static_cast<int>(args_.gemm.n) / 2, stride) : 0;
    return times(r % kOf * 8, stride) + up;
  }
  __device__ __forceinline__ static int64 times(int i, int64 stride) {
    return static_cast<int64>(i) * static_cast<int>(stride);
  }
  __device__ __forceinline__ static int64 group_at(const GemmBlockScale& b, int batch, int n, int k) {
    return batch * b.stride_batch + times(n, b.stride_outer) + times(group_of(k), b.stride_k);
  }
  __device__ __forceinline__ static int group_of(int k) {
    if constexpr (kConfig.group == 0) return 0;
    return k / kConfig.group;
  }

  const GemmScaledArgs& args_;
  const GemvDequantGpuCut& cut_;
  const int k_end_;
  int k_;               // where the step's first line begins
  int n_left_;          // rows from this lane's first one on
  bool is_whole_;       // all rows of the tile are there
  const char* rows_;    // this lane's first piece of its first row, of the step
  const char* scales_;  // of the first row, of the next line to be loaded
  int64 zeros_;         // the same of zero points: its index
};

}  // namespace tilewright
