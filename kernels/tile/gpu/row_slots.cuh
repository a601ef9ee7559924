// SPDX-License-Identifier: MIT
// Rows of gradients of norms in slots, in CUDA; sm_90a has room for them. Each thread copies its pieces of rows to slots of its own in shared memory, which nobody
// else reads, so memory is busy whatever threads wait for.
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

// A thread's pieces of its rows, one after another: those in slots, what follows from them, and the sums of its columns. `Rows` tells which they are: row_thread(), of
// the threads that share a row, and rows_apart(args), from one row of a thread to its next.
// A Norm's Found is kSums sums, over the lanes of a warp or of fewer threads that share a row, of shares(x, g) of their elements and the output's
// gradients times the weight; joined(places) of a row's warps; and gradient(args, found) is the NormGradient that follows.
template <RowGpuConfig kConfig, class Norm, class Rows>
struct BackwardSlots {
  static constexpr int kPieces = kConfig.pieces, kSlots = kConfig.slots;
  static constexpr bool kAdds = kConfig.out != DType::kF32;  // from slots

  const RowArgs& args;
  RowSlots<kConfig, kConfig.x> x;
  RowSlots<kConfig, kConfig.residual> dy;
  RowSlots<kConfig, kConfig.out> added;
  char* out;
  Piece weight[kPieces];
  BackwardSums<kConfig> sums;

  __device__ __forceinline__ explicit BackwardSlots(const RowArgs& given) : args(given) {
    constexpr int kTensor = kSlots * row_slot_bytes(kConfig);
    unsigned char* const mine = dynamic_shared() + row_met_bytes(kConfig.threads) + threadIdx.x * 16;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) RowColumns<kConfig>::read_weight(given, column(j), kRowPiece, weight[j]);
    x.mine = mine, dy.mine = mine + kTensor, added.mine = mine + 2 * kTensor;
  }
  __device__ __forceinline__ bool adds() const { return args.backward.added.data != nullptr; }
  __device__ __forceinline__ static int column(int j) {
    return j * GpuRow<kConfig>::kStep + Rows::row_thread() * kRowPiece;
  }
  // Of rows of one dimension: where this thread's part of one begins, and how far it is to the thread's next.
  template <DType kType>
  __device__ __forceinline__ static char* start_of(const RowTensor& t, long long row) {
    return row_start<kType>(t, {{0, 0, row}}) + column(0) * dtype_bits(kType) / 8;
  }
  template <DType kType>
  __device__ __forceinline__ long long apart(const RowTensor& t) const {
    return Rows::rows_apart(args) * t.stride[2] * dtype_bits(kType) / 8;
  }
  // At its first row, of `mine`; kernels in front may still write it.
  __device__ __forceinline__ void start(long long row, int mine) {
    x.next = start_of<kConfig.x>(args.x, row), dy.next = start_of<kConfig.residual>(args.residual, row);
    added.next = adds() ? start_of<kConfig.out>(args.backward.added, row) : nullptr;
    out = start_of<kConfig.out>(args.out, row);
    if constexpr (fetches_rows(kConfig)) {
      if (mine > 0) x.fetch(), dy.fetch();
    }
    if constexpr (has_edge(kConfig)) wait_for_previous_kernel();
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) ask(slot, slot < mine);
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
  // Of a row in its slot.
  __device__ __forceinline__ void shares(int slot, float (&share)[Norm::kSums]) const {
    Piece of[kPieces], g[kPieces];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      Piece gradient;
      x.take(slot, j, of[j]), dy.take(slot, j, gradient);
      for_elements([&](int i) { g[j].v[i] = __fmul_rn(weight[j].v[i], gradient.v[i]); });
    }
    Norm::shares(of, g, share);
  }
  // And its gradient, the thread's next; `count` of each piece, none of rows that are not there.
  __device__ __forceinline__ void store(int slot, int count, const NormGradient& by) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      Piece p, gradient;
      x.take(slot, j, p), dy.take(slot, j, gradient);
      const Piece scaled = centre<Norm::kCentred>(by, gradient, p);
      sums.add(args, false, column(j), count, j, p, scaled, gradient);
      take_gradient<Norm::kCentred>(by, scaled, weight[j], p);
      const int n = j * GpuRow<kConfig>::kStep;
      if (adds()) {
        Piece g;
        if constexpr (kAdds) {
          added.take(slot, j, g);
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
};

}  // namespace tilewright
