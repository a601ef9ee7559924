// SPDX-License-Identifier: MIT
// Sums of columns over rows, which the gradients of norms end with: the threads that share rows add up their own part, in registers where
// rows stay there, and parts are added in their order. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row.cuh"

namespace tilewright {

// Of a thread's columns, over the rows that it has.
template <RowGpuConfig kConfig>
struct BackwardSums {
  static constexpr bool kKept = kConfig.pieces > 0;
  static constexpr int kPieces = kKept ? kConfig.pieces : 1;
  Piece weight[kPieces], bias[kPieces];

  __device__ __forceinline__ BackwardSums() {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) for_elements([&](int i) { weight[j].v[i] = bias[j].v[i] = 0; });
  }
  // To a sum in registers, or in a part in memory, which `first` begins: add(sum).
  template <class Add>
  __device__ __forceinline__ static void add_to(Piece& sum, float* part, bool first, long long n, int count,
                                                Add&& add) {
    char* const to = reinterpret_cast<char*>(part);
    if constexpr (!kKept) {
      for_elements([&](int i) { sum.v[i] = 0; });
      if (!first) load_piece<DType::kF32, kConfig.whole>(to, DType::kF32, n, count, sum);
    }
    // Rows that are not there have NaN where eps is 0.
    for_elements([&](int i) { sum.v[i] = is_there<kConfig>(i, count) ? add(sum.v[i], i) : sum.v[i]; });
    if constexpr (!kKept) store_piece<DType::kF32, kConfig.whole>(to, DType::kF32, n, count, sum);
  }
  // A piece of x's differences, of its output's gradient times what normalises them, and of that alone.
  __device__ __forceinline__ void add(const RowArgs& args, bool first, long long n, int count, int j, const Piece& x,
                                      const Piece& scaled, const Piece& dy) {
    if (args.backward.weight.data != nullptr) {
      add_to(weight[j], weight_part(args, blockIdx.x), first, n, count,
             [&](float sum, int i) { return __fmaf_rn(scaled.v[i], x.v[i], sum); });
    }
    if (args.backward.bias.data != nullptr) {
      add_to(bias[j], bias_part(args, blockIdx.x), first, n, count,
             [&](float sum, int i) { return __fadd_rn(sum, dy.v[i]); });
    }
  }
  // Behind the last row: what registers have added up.
  __device__ __forceinline__ void store(const RowArgs& args) const {
    if constexpr (kKept) {
      constexpr int kRows = GpuRow<kConfig>::kRows;
      const long long part = static_cast<long long>(blockIdx.x) * kRows + row_of_block<kConfig.threads>();
      const auto store_to = [&](float* to, const Piece(&sum)[kPieces]) {
        if (to == nullptr) return;
#pragma unroll
        for (int j = 0; j < kPieces; ++j) {
          const int n = j * GpuRow<kConfig>::kStep + row_thread<kConfig>() * kRowPiece;
          const long long left = args.n - n;
          const int count = kConfig.full       ? kRowPiece
                            : left <= 0        ? 0
                            : left < kRowPiece ? static_cast<int>(left)
                                               : kRowPiece;
          store_piece<DType::kF32, kConfig.whole>(reinterpret_cast<char*>(to), DType::kF32, n, count, sum[j]);
        }
      };
      store_to(weight_part(args, part), weight);
      store_to(bias_part(args, part), bias);
    }
  }
};

// A block's share of the columns of one of the sums, 32 at a time: its warps take parts in turns, several of which are on their way at once,
// and the first one adds what they have found in their order. Where there are two sums, blocks have one and the other in turn.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void sum_columns(const RowArgs& args) {
  constexpr int kWarps = row_block_threads(kConfig.threads) / kRowLanes, kAtOnce = 16;
  auto* const found = reinterpret_cast<float*>(dynamic_shared());
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes, warp = static_cast<int>(threadIdx.x) / kRowLanes;
  const RowBackward& sums = args.backward;
  const bool both = sums.weight.data != nullptr && sums.bias.data != nullptr;
  const long long each = both ? 2 : 1, block = blockIdx.x / each;
  const bool of_bias = sums.weight.data == nullptr || (both && blockIdx.x % 2 == 1);
  const RowSums& to = of_bias ? sums.bias : sums.weight;
  const float* const parts = of_bias ? bias_part(args, 0) : weight_part(args, 0);
  const int mine = (static_cast<int>(args.part_count) - warp + kWarps - 1) / kWarps;  // parts of this warp
  const long long apart = args.n * kWarps;
#pragma unroll 1
  for (long long first = block * kRowLanes; first < args.n; first += args.grid / each * kRowLanes) {
    const long long n = first + lane, known = n < args.n ? n : args.n - 1;
    const float* from = parts + warp * args.n + known;
    float all = 0;
    int left = mine;
#pragma unroll 1
    for (; left >= kAtOnce; left -= kAtOnce) {
      float next[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i, from += apart) next[i] = *from;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) all = __fadd_rn(all, next[i]);
    }
    if (left > 0) {  // the rest: the last one again where there are fewer
      float next[kAtOnce - 1];
#pragma unroll
      for (int i = 0; i < kAtOnce - 1; ++i) {
        next[i] = *from;
        if (i + 1 < left) from += apart;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce - 1; ++i) all = i < left ? __fadd_rn(all, next[i]) : all;
    }
    found[threadIdx.x] = all;
    __syncthreads();
    if (warp == 0 && n < args.n) {
      for (int other = 1; other < kWarps; ++other) all = __fadd_rn(all, found[other * kRowLanes + lane]);
      Piece one{};
      one.v[0] = all;
      store_piece<DType::kNone>(static_cast<char*>(to.data), to.dtype, n, 1, one);
    }
    __syncthreads();
  }
}

}  // namespace tilewright
