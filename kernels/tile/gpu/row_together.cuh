// SPDX-License-Identifier: MIT
// Gradients of norms of few rows, in CUDA for sm_90: each block of one cluster takes the parts of one or two of the warps that share a row, of all rows, so that it adds up its
// own columns, and one launch does it all. What rows are reduced to has the bits that it has where blocks take whole rows: each warp's share is the same, and joined in the
// same order.
#pragma once

#include "tile/gpu/row_slots.cuh"

namespace tilewright {

// Parts of rows, whose columns are this block's of a cluster of at most kMost.
template <RowGpuConfig kConfig, int kMost>
struct RowsOfCluster {
  static constexpr RowTogether kShape = row_together(kConfig, kMost);
  __device__ __forceinline__ static int warp() { return static_cast<int>(threadIdx.x) / kRowLanes; }
  // Of the warps that share a row.
  __device__ __forceinline__ static int row_warp() {
    return static_cast<int>(sm90::block_in_cluster()) * kShape.warps + warp() % kShape.warps;
  }
  __device__ __forceinline__ static int row_thread() {
    return row_warp() * kRowLanes + static_cast<int>(threadIdx.x) % kRowLanes;
  }
  __device__ __forceinline__ static long long rows_apart(const RowArgs&) { return kShape.at_once; }
};

template <RowGpuConfig kConfig, class Norm, int kMost>
struct BackwardTogether {
  using Rows = RowsOfCluster<kConfig, kMost>;
  using Found = typename Norm::Found;
  static constexpr RowTogether kShape = row_together(kConfig, kMost);
  static constexpr int kSlots = kConfig.slots, kPieces = kConfig.pieces, kParts = kConfig.threads / kRowLanes;
  static constexpr int kThreads = row_block_threads(kConfig.threads), kWarps = kThreads / kRowLanes;
  static constexpr int kPieceColumns = kShape.warps * kRowLanes * kRowPiece, kColumns = kPieces * kPieceColumns;
  static_assert(kSlots * kWarps * static_cast<int>(sizeof(Found)) <= row_met_bytes(kConfig.threads));
  static_assert(sizeof(Found) <= kRowTogetherFound &&
                kShape.at_once * kColumns * 4 <= kSlots * row_slot_bytes(kConfig));

  const RowArgs& args;
  BackwardSlots<kConfig, Norm, Rows> rows;

  __device__ __forceinline__ explicit BackwardTogether(const RowArgs& given) : args(given), rows(given) {}

  // What a warp finds of its rows; what all of them have found of all rows; and where that has landed.
  __device__ __forceinline__ static Found* own(int turn) {
    return reinterpret_cast<Found*>(dynamic_shared()) + turn * kWarps + Rows::warp();
  }
  __device__ __forceinline__ Found* places(int row) const {
    unsigned char* const behind = dynamic_shared() + row_backward_bytes(kConfig, rows.adds());
    return reinterpret_cast<Found*>(behind + sizeof(sm90::Barrier) * 2) + row * kParts;
  }
  __device__ __forceinline__ sm90::Barrier& landed() const {
    return *reinterpret_cast<sm90::Barrier*>(dynamic_shared() + row_backward_bytes(kConfig, rows.adds()));
  }

  __device__ __forceinline__ void run() {
    const int first = Rows::warp() / kShape.warps, all = static_cast<int>(args.rows);
    const int mine = first < all && first < kShape.at_once ? (all - first + kShape.at_once - 1) / kShape.at_once : 0;
    if (threadIdx.x == 0) {
      sm90::init(landed(), 1);
      sm90::fence_barrier_init();
      sm90::arrive_expect_bytes(landed(), all * kParts * sizeof(Found));
    }
    sm90::arrive_cluster();

    rows.start(first, mine);
    wait_copies<0>();
    for (int turn = 0; turn < mine; ++turn) {
      float share[Norm::kSums];
      rows.shares(turn, share);
      leave_sums(share, reinterpret_cast<float*>(own(turn)));
    }
    __syncwarp();
    sm90::wait_cluster();  // the others have their barriers
    const auto lane = threadIdx.x % kRowLanes;
    if (lane < kShape.blocks) {
      for (int turn = 0; turn < mine; ++turn) {
        Found* const to = places(first + turn * kShape.at_once) + Rows::row_warp();
        sm90::store_remote(to, landed(), lane, *own(turn));
      }
    }
    sm90::wait(landed(), 0);
    for (int turn = 0; turn < mine; ++turn) {
      const Found found = Norm::joined(places(first + turn * kShape.at_once));
      rows.store(turn, kRowPiece, Norm::gradient(args, found));
    }

    __syncthreads();  // nobody reads slots any longer
    const RowBackward& sums = args.backward;
    const int sets = all < kShape.at_once ? all : kShape.at_once;
    if (sums.weight.data != nullptr) leave_columns(rows.sums.weight, 0, first, sets);
    if (sums.bias.data != nullptr) leave_columns(rows.sums.bias, 1, first, sets);
    __syncthreads();
    if (sums.weight.data != nullptr) add_columns(sums.weight, 0, sets);
    if (sums.bias.data != nullptr) add_columns(sums.bias, 1, sets);
  }

  // The sums of each set of rows, [set, column], in the slots of x or of its output's gradient.
  __device__ __forceinline__ static float* column_sums(int of) {
    return reinterpret_cast<float*>(dynamic_shared() + row_met_bytes(kConfig.threads) +
                                    of * kSlots * row_slot_bytes(kConfig));
  }
  __device__ __forceinline__ static void leave_columns(const Piece (&sum)[kPieces], int of, int set, int sets) {
    if (set >= sets) return;
    const int at = static_cast<int>(threadIdx.x) % (kShape.warps * kRowLanes) * kRowPiece;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      store_piece<DType::kF32, true>(reinterpret_cast<char*>(column_sums(of) + set * kColumns + j * kPieceColumns),
                                     DType::kF32, at, kRowPiece, sum[j]);
    }
  }
  __device__ __forceinline__ static void add_columns(const RowSums& to, int of, int sets) {
    const auto rank = static_cast<int>(sm90::block_in_cluster());
#pragma unroll 1
    for (auto column = static_cast<int>(threadIdx.x); column < kColumns; column += kThreads) {
      const float* from = column_sums(of) + column;
      float sum = *from;
      for (int set = 1; set < sets; ++set) sum = __fadd_rn(sum, from[set * kColumns]);
      Piece one{};
      one.v[0] = sum;
      const int n = column / kPieceColumns * GpuRow<kConfig>::kStep + rank * kPieceColumns + column % kPieceColumns;
      store_piece<DType::kNone>(static_cast<char*>(to.data), to.dtype, n, 1, one);
    }
  }
};

// By the cluster that was launched.
template <RowGpuConfig kConfig, class Norm>
__device__ __forceinline__ void backward_rows_together(const RowArgs& args) {
  constexpr int kLarge = row_together(kConfig, kLargeCluster).blocks,
                kEvery = row_together(kConfig, kEveryCluster).blocks;
  if constexpr (kLarge > 0) {
    if (kEvery == kLarge || args.grid == kLarge) return BackwardTogether<kConfig, Norm, kLargeCluster>(args).run();
  }
  if constexpr (kEvery > 0 && kEvery != kLarge) BackwardTogether<kConfig, Norm, kEveryCluster>(args).run();
}

}  // namespace tilewright
