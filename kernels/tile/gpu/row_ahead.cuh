// SPDX-License-Identifier: MIT
// Gradients of norms whose rows are asked for ahead, in CUDA; sm_90a has room for them. Each thread copies its pieces of the next rows to slots of its own in
// shared memory, which nobody else reads, so memory is busy whatever threads wait for. What a row is reduced to is left for the others before the
// row before it is written: one barrier a row, and none waits for a reduction.
#pragma once

#include "tile/gpu/row_backward.cuh"

namespace tilewright {

// A tensor's rows: where the next one of this thread begins, and those in slots.
template <RowGpuConfig kConfig, DType kType>
struct RowSlots {
  static constexpr int kPieceBytes = row_block_threads(kConfig.threads) * 16;
  const char* next;
  unsigned char* mine;  // the thread's, of the first slot

  __device__ __forceinline__ unsigned char* at(int slot, int j) const {
    return mine + (slot * kConfig.pieces + j) * kPieceBytes;
  }
  __device__ __forceinline__ void ask(int slot) const {
    static_assert(kConfig.full && dtype_bits(kType) == 16);
#pragma unroll
    for (int j = 0; j < kConfig.pieces; ++j)
      copy_async<16>(shared_address(at(slot, j)), next + j * GpuRow<kConfig>::kStep * 2, 16);
  }
  __device__ __forceinline__ void fetch() const {
#pragma unroll
    for (int j = 0; j < kConfig.pieces; ++j) fetch_ahead(next + j * GpuRow<kConfig>::kStep * 2);
  }
  __device__ __forceinline__ void take(int slot, int j, Piece& to) const {
    PieceWords<kType> words;
    words.load(at(slot, j));
    words.widen(to);
  }
};

// The sums of 2 or 4 values over a warp's lanes, to their places: lanes that swap halves of the values go on with half of them.
template <int kValues>
__device__ __forceinline__ void leave_sums(const float (&x)[kValues], float* to) {
  static_assert(kValues == 2 || kValues == 4);
  const unsigned lane = threadIdx.x % kRowLanes;
  const bool upper = (lane & 16) != 0;
  float half[kValues / 2];
#pragma unroll
  for (int v = 0; v < kValues / 2; ++v) {
    const float mine = upper ? x[kValues / 2 + v] : x[v], other = upper ? x[v] : x[kValues / 2 + v];
    half[v] = __fadd_rn(mine, lane_xor(other, 16));
  }
  float one = half[0];
  if constexpr (kValues == 4) {
    const bool second = (lane & 8) != 0;
    one = __fadd_rn(second ? half[1] : half[0], lane_xor(second ? half[0] : half[1], 8));
  }
  constexpr unsigned kEach = kRowLanes / kValues;
#pragma unroll
  for (unsigned apart = kEach / 2; apart > 0; apart /= 2) one = __fadd_rn(one, lane_xor(one, apart));
  if (lane % kEach == 0) to[lane / kEach] = one;
}

// A Norm's Found is kSums sums, over the lanes of a warp or of fewer threads that share a row, of shares(x, g) of their elements and the output's
// gradients times the weight; joined(places) of a row's warps; and gradient(args, found) is the NormGradient that follows.
template <RowGpuConfig kConfig, class Norm>
struct BackwardAhead {
  static constexpr int kThreads = kConfig.threads, kPieces = kConfig.pieces, kSlots = kConfig.slots;
  static constexpr int kRows = GpuRow<kConfig>::kRows, kParts = kThreads > kRowLanes ? kThreads / kRowLanes : 1;
  static constexpr bool kAdds = kConfig.out != DType::kF32;  // from slots
  using Found = typename Norm::Found;
  static_assert(kSlots > 2 && 2 * kRows * kParts * static_cast<int>(sizeof(Found)) <= row_met_bytes(kThreads));

  const RowArgs& args;
  RowSlots<kConfig, kConfig.x> x;
  RowSlots<kConfig, kConfig.residual> dy;
  RowSlots<kConfig, kConfig.out> added;
  char* out;
  Piece weight[kPieces];
  BackwardSums<kConfig> sums;
  Found alone;  // of threads that need not meet others

  __device__ __forceinline__ explicit BackwardAhead(const RowArgs& given) : args(given) {
    constexpr int kTensor = kSlots * row_slot_bytes(kConfig);
    unsigned char* const mine = dynamic_shared() + row_met_bytes(kThreads) + threadIdx.x * 16;
    const RowColumns<kConfig> columns(given);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) columns.take_weight(column(j), kRowPiece, weight[j], j);
    x.mine = mine, dy.mine = mine + kTensor, added.mine = mine + 2 * kTensor;
  }
  __device__ __forceinline__ bool adds() const { return args.backward.added.data != nullptr; }
  __device__ __forceinline__ static int column(int j) {
    return j * GpuRow<kConfig>::kStep + row_thread<kConfig>() * kRowPiece;
  }
  // Of rows of one dimension: where this thread's part of one begins, and how far it is to the thread's next.
  template <DType kType>
  __device__ __forceinline__ static char* start_of(const RowTensor& t, long long row) {
    return row_start<kType>(t, {{0, 0, row}}) + column(0) * dtype_bits(kType) / 8;
  }
  template <DType kType>
  __device__ __forceinline__ long long apart(const RowTensor& t) const {
    return args.grid * kRows * t.stride[2] * dtype_bits(kType) / 8;
  }
  // A group of copies of the next row, empty behind the last one.
  __device__ __forceinline__ void ask(int slot, bool there) {
    if (there) {
      x.ask(slot), dy.ask(slot);
      x.next += apart<kConfig.x>(args.x), dy.next += apart<kConfig.residual>(args.residual);
      if constexpr (kAdds) {
        if (adds()) added.ask(slot), added.next += apart<kConfig.out>(args.backward.added);
      }
    }
    commit_copies();
  }
  __device__ __forceinline__ static Found* places(int turn) {
    return reinterpret_cast<Found*>(dynamic_shared()) + (turn % 2 * kRows + row_of_block<kThreads>()) * kParts;
  }

  // What a row is reduced to, by this warp.
  __device__ __forceinline__ void find(int turn) {
    Piece of[kPieces], g[kPieces];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      Piece gradient;
      x.take(turn % kSlots, j, of[j]), dy.take(turn % kSlots, j, gradient);
      for_elements([&](int i) { g[j].v[i] = __fmul_rn(weight[j].v[i], gradient.v[i]); });
    }
    float share[Norm::kSums];
    Norm::shares(of, g, share);
    if constexpr (kParts == 1) {
      reduce_threads<kThreads>(share, sum_of);
      alone = __builtin_bit_cast(Found, share);
    } else {
      leave_sums(share, reinterpret_cast<float*>(places(turn) + row_thread<kConfig>() / kRowLanes));
    }
  }
  // Found before the last barrier.
  __device__ __forceinline__ Found found(int turn) const {
    if constexpr (kParts == 1) return alone;
    if constexpr (kParts > 1) return Norm::joined(places(turn));
  }
  __device__ __forceinline__ void store(int turn, bool there, const NormGradient& by) {
    const int count = kRows == 1 || there ? kRowPiece : 0;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      Piece p, gradient;
      x.take(turn % kSlots, j, p), dy.take(turn % kSlots, j, gradient);
      const Piece scaled = centre<Norm::kCentred>(by, gradient, p);
      sums.add(args, false, column(j), count, j, p, scaled, gradient);
      take_gradient<Norm::kCentred>(by, scaled, weight[j], p);
      const int n = j * GpuRow<kConfig>::kStep;
      if (adds()) {
        Piece g;
        if constexpr (kAdds) {
          added.take(turn % kSlots, j, g);
        } else {
          load_piece<kConfig.out, true>(added.next, kConfig.out, n, count, g);  // no slots for floats of 32 bits
        }
        for_elements([&](int i) { p.v[i] = __fadd_rn(p.v[i], g.v[i]); });
      }
      store_together<kConfig.out, true>(out, kConfig.out, n, count, p);
    }
    out += apart<kConfig.out>(args.out);
    if constexpr (!kAdds) added.next += apart<kConfig.out>(args.backward.added);
  }

  __device__ __forceinline__ void run() {
    const long long step = args.grid * kRows, first = static_cast<long long>(blockIdx.x) * kRows;
    const long long row = first + row_of_block<kThreads>();
    const auto turns_from = [&](long long at) {
      return at < args.rows ? static_cast<int>((args.rows - at + step - 1) / step) : 0;
    };
    const int turns = turns_from(first), mine = kRows == 1 ? turns : turns_from(row);

    x.next = start_of<kConfig.x>(args.x, row), dy.next = start_of<kConfig.residual>(args.residual, row);
    added.next = adds() ? start_of<kConfig.out>(args.backward.added, row) : nullptr;
    out = start_of<kConfig.out>(args.out, row);
    if constexpr (fetches_rows(kConfig)) {
      if (mine > 0) x.fetch(), dy.fetch();
    }
    if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) ask(slot, slot < mine);
    wait_copies<kSlots - 1>();
    find(0);
    __syncthreads();
    const auto write = [&](int turn, const Found& all) { store(turn, turn < mine, Norm::gradient(args, all)); };
    const int last = turns - 1;
#pragma unroll 1
    for (int turn = 0; turn < last; ++turn) {
      wait_copies<kSlots - 2>();
      // Taken before the next row's takes its place.
      const Found all = found(turn);
      find(turn + 1);
      write(turn, all);
      ask(turn % kSlots, turn + kSlots < mine);
      __syncthreads();
    }
    if (turns > 0) write(last, found(last));
    sums.store(args);
  }
};

// A block's rows, or its share of the columns.
template <RowGpuConfig kConfig, class Norm>
__device__ __forceinline__ void for_backward_rows_ahead(const RowArgs& args) {
  allow_next_kernel();
  if (!has_edge(kConfig) || args.step == RowStep::kColumns) wait_for_previous_kernel();
  if (args.step == RowStep::kColumns) return sum_columns<kConfig>(args);
  BackwardAhead<kConfig, Norm>(args).run();
}

}  // namespace tilewright
