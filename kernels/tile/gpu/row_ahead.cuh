// SPDX-License-Identifier: MIT
// Gradients of norms whose rows are asked for ahead (row_slots.cuh). What a row is reduced to is left for the others before the row before it is written: one
// barrier a row, and none waits for a reduction.
#pragma once

#include "tile/gpu/row_slots.cuh"
#include "tile/gpu/row_together.cuh"

namespace tilewright {

// Every so many-th row, and all of it in a block.
template <RowGpuConfig kConfig>
struct RowsOfGrid {
  __device__ __forceinline__ static int row_thread() { return tilewright::row_thread<kConfig>(); }
  __device__ __forceinline__ static long long rows_apart(const RowArgs& args) {
    return args.grid * GpuRow<kConfig>::kRows;
  }
};

template <RowGpuConfig kConfig, class Norm>
struct BackwardAhead {
  static constexpr int kThreads = kConfig.threads, kSlots = kConfig.slots;
  static constexpr int kRows = GpuRow<kConfig>::kRows, kParts = kThreads > kRowLanes ? kThreads / kRowLanes : 1;
  using Found = typename Norm::Found;
  static_assert(kSlots > 2 && 2 * kRows * kParts * static_cast<int>(sizeof(Found)) <= row_met_bytes(kThreads));

  const RowArgs& args;
  BackwardSlots<kConfig, Norm, RowsOfGrid<kConfig>> rows;
  Found alone;  // of threads that need not meet others

  __device__ __forceinline__ explicit BackwardAhead(const RowArgs& given) : args(given), rows(given) {}
  __device__ __forceinline__ static Found* places(int turn) {
    return reinterpret_cast<Found*>(dynamic_shared()) + (turn % 2 * kRows + row_of_block<kThreads>()) * kParts;
  }

  // What a row is reduced to, by this warp.
  __device__ __forceinline__ void find(int turn) {
    float share[Norm::kSums];
    rows.shares(turn % kSlots, share);
    if constexpr (kParts == 1) {
      reduce_threads<kThreads>(share, sum_of);
      struct Sums {  // NVRTC 13.0 casts no array
        float of[Norm::kSums];
      } sums;
#pragma unroll
      for (int v = 0; v < Norm::kSums; ++v) sums.of[v] = share[v];
      alone = __builtin_bit_cast(Found, sums);
    } else {
      leave_sums(share, reinterpret_cast<float*>(places(turn) + row_thread<kConfig>() / kRowLanes));
    }
  }
  // Found before the last barrier.
  __device__ __forceinline__ Found found(int turn) const {
    if constexpr (kParts == 1) return alone;
    if constexpr (kParts > 1) return Norm::joined(places(turn));
  }

  __device__ __forceinline__ void run() {
    const long long step = args.grid * kRows, first = static_cast<long long>(blockIdx.x) * kRows;
    const long long row = first + row_of_block<kThreads>();
    const auto turns_from = [&](long long at) {
      return at < args.rows ? static_cast<int>((args.rows - at + step - 1) / step) : 0;
    };
    const int turns = turns_from(first), mine = kRows == 1 ? turns : turns_from(row);

    rows.start(row, mine);
    wait_copies<kSlots - 1>();
    find(0);
    __syncthreads();
    const auto write = [&](int turn, const Found& all) {
      rows.store(turn % kSlots, kRows == 1 || turn < mine ? kRowPiece : 0, Norm::gradient(args, all));
    };
    const int last = turns - 1;
#pragma unroll 1
    for (int turn = 0; turn < last; ++turn) {
      wait_copies<kSlots - 2>();
      // Taken before the next row's takes its place.
      const Found all = found(turn);
      find(turn + 1);
      write(turn, all);
      rows.ask(turn % kSlots, turn + kSlots < mine);
      __syncthreads();
    }
    if (turns > 0) write(last, found(last));
    rows.sums.store(args);
  }
};

// A block's rows, or its share of the columns; or of few rows a cluster's.
template <RowGpuConfig kConfig, class Norm>
__device__ __forceinline__ void for_backward_rows_ahead(const RowArgs& args) {
  allow_next_kernel();
  if (!has_edge(kConfig) || args.step == RowStep::kColumns) wait_for_previous_kernel();
  if (args.step == RowStep::kColumns) return sum_columns<kConfig>(args);
  if (args.step == RowStep::kTogether) return backward_rows_together<kConfig, Norm>(args);
  BackwardAhead<kConfig, Norm>(args).run();
}

}  // namespace tilewright
