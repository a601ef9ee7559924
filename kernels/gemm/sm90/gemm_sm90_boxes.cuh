// SPDX-License-Identifier: MIT
// D of gemm_sm90 where it is of 16 bits, its rows contiguous and at multiples of 16 bytes: boxes of 64 columns of it, or what is
// left of a tile or a piece, as words.
#pragma once

#include "gemm/gpu/gemm_epilogue_gpu.cuh"
#include "gemm/sm90/gemm_sm90_layout.cuh"
#include "tile/sm90/barrier.cuh"
#include "tile/sm90/memory.cuh"

namespace tilewright {

template <GemmSm90Config kConfig, class LayoutOf>
class GemmSm90Boxes {
 public:
  using Layout = LayoutOf;
  using Sum = typename Layout::Wgmma::Accumulator;
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  static constexpr bool kFactors = gemm_sm90_has_factors(kConfig);
  static constexpr int kRows64 = Layout::kRows64;
  static constexpr int kBoxColumns = kSm90BoxColumns;
  // Of 64 rows. A piece is what one instruction gives; boxes do not straddle pieces.
  static constexpr int kPieceColumns = gemm_sm90_piece_columns(kConfig);
  static constexpr int kPieceBoxes = (kPieceColumns + kBoxColumns - 1) / kBoxColumns;
  static constexpr int kBoxes = gemm_sm90_d_columns(kConfig) / kPieceColumns * kPieceBoxes;
  static constexpr int kBoxSums = kSeparated ? kBoxColumns : kBoxColumns / 2;  // of a thread
  static constexpr int kBoxWords = kBoxColumns / 4;
  static constexpr bool kShort = gemm_sm90_is_short(kConfig);

  // Of D's columns in the tile a box's first; how many it has, and a thread's sums: fewer in the last of a piece.
  __device__ static constexpr int column_of(int box) {
    return box / kPieceBoxes * kPieceColumns + box % kPieceBoxes * kBoxColumns;
  }
  __device__ static constexpr int columns_of(int box) {
    return min(kBoxColumns, kPieceColumns - box % kPieceBoxes * kBoxColumns);
  }
  __device__ static constexpr int sums_of(int box) { return columns_of(box) * kBoxSums / kBoxColumns; }
  // Of a thread's j-th sum of a box among all its sums: a separated gate's box has as many of each half.
  __device__ static constexpr int place(int box, int j) {
    constexpr int kHalf = kBoxSums / 2;
    if (!kSeparated) return column_of(box) / 2 + j;
    return column_of(box) / 2 + j % kHalf + (j < kHalf ? 0 : kConfig.tile_n / 4);
  }

  __device__ GemmSm90Boxes(const GemmSm90Args& args, const Layout& shared, int warpgroup)
      : args_(args), shared_(shared), warpgroup_(warpgroup) {}

 protected:
  using Columns = typename Epilogue::Columns;

  __device__ __forceinline__ static int lane() { return threadIdx.x % 32; }
  __device__ __forceinline__ static int warp() { return threadIdx.x / 32 % 4; }
  __device__ __forceinline__ static bool owns(const GemmSm90Tile& tile, int box) {
    return tile.parts == 1 || box % tile.parts == tile.part;
  }

  __device__ __forceinline__ Columns columns(int slot, int pair) const {
    if constexpr (!kFactors) return {0, {1.0f, 1.0f}, {-0.0f, -0.0f}};
    const float4 f = shared_.column_factors(slot)[pair];
    return {0, {f.x, f.y}, {f.z, f.w}};
  }

  // Sums of a box of the r-th 64 rows as words of D, in the order in which put() wants them: 16 columns at a time, matrices of
  // the warp's rows 0-7 and 8-15, of columns 0-7, then 8-15.
  __device__ __forceinline__ void convert(const Sum (&x)[kBoxSums], int slot, int r, int box,
                                          unsigned (&words)[kBoxWords]) const {
    const Epilogue epilogue(args_.gemm.epilogue, args_.gemm.m, args_.gemm.n, 0);
    typename Epilogue::Row upper{0, 1.0f}, lower{0, 1.0f};
    const int row = (warpgroup_ * kRows64 + r) * 64 + 16 * warp() + lane() / 4;
    if constexpr (kFactors) {
      upper.factor = shared_.row_factors(slot)[row];
      lower.factor = shared_.row_factors(slot)[row + 8];
    }
#pragma unroll
    for (int i = 0; i < kBoxWords; i += 2) {
      if (4 * i >= columns_of(box)) continue;
      const int at = 2 * i;  // at, at + 1: the upper row; then the lower
      const int pair = (column_of(box) + 4 * i) / 2 + lane() % 4;
      const Columns first = columns(slot, pair);
      GemmPair high, low;
      if constexpr (kSeparated) {
        const Columns up = columns(slot, kConfig.tile_n / 4 + pair);
        const Sum* y = &x[kBoxSums / 2];
        high = epilogue.gated(upper, first, up, x[at], x[at + 1], y[at], y[at + 1]);
        low = epilogue.gated(lower, first, up, x[at + 2], x[at + 3], y[at + 2], y[at + 3]);
      } else {
        high = epilogue.linear(upper, first, x[at], x[at + 1]);
        low = epilogue.linear(lower, first, x[at + 2], x[at + 3]);
      }
      words[i] = Epilogue::pack(high.first, high.second);
      words[i + 1] = Epilogue::pack(low.first, low.second);
    }
  }

  const GemmSm90Args& args_;
  const Layout shared_;
  const int warpgroup_;
};

// Scales and bias of a tile. `thread` of those that bring them.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_bring_factors(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                                        int slot, int m, int n, int batch, int thread) {
  using Epilogue = GemmEpilogue<gemm_sm90_epilogue(kConfig)>;
  constexpr int kThreads = kSm90BringingThreads;
  const Epilogue epilogue(args.gemm.epilogue, args.gemm.m, args.gemm.n, batch);
#pragma unroll 1
  for (int pair = thread; pair < kConfig.tile_n / 2; pair += kThreads) {
    int64 column = n + 2 * pair;
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      if (pair >= kConfig.tile_n / 4) column += epilogue.out_n() - kConfig.tile_n / 2;
    }
    const auto columns = epilogue.columns(column);
    shared.column_factors(slot)[pair] = {columns.scale.first, columns.scale.second, columns.bias.first,
                                         columns.bias.second};
  }
#pragma unroll
  for (int row = thread; row < (kConfig.tile_m + kThreads - 1) / kThreads * kThreads; row += kThreads) {
    const float factor = epilogue.row(m + row).factor;
    if (row < kConfig.tile_m) shared.row_factors(slot)[row] = factor;
  }
}

}  // namespace tilewright
