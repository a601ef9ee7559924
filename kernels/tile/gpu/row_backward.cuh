// SPDX-License-Identifier: MIT
// What the gradients of norms end with: x's gradient of a row, and sums of columns over rows. The threads that share rows add up their own
// part, in registers where rows stay there, and parts are added in their order. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row_input.cuh"

namespace tilewright {

// Rows of x, their outputs' gradients, and the parts that they are added to: one for all rows of a thread.
template <RowGpuConfig kConfig>
struct BackwardRows {
  static constexpr bool kKept = kConfig.pieces > 0;
  static constexpr int kPieces = kKept ? kConfig.pieces : 1;
  // For floats of 32 bits there are no registers.
  using Added = AskedPieces<kConfig, kConfig.out == DType::kF32 ? DType::kNone : kConfig.out>;
  RowInput<kConfig> input;
  RowColumns<kConfig> columns;
  Added added_words;
  Piece dy[kPieces], weight_sum[kPieces], bias_sum[kPieces];

  __device__ __forceinline__ explicit BackwardRows(const RowArgs& given) : input(given), columns(given) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) for_elements([&](int i) { weight_sum[j].v[i] = bias_sum[j].v[i] = 0; });
  }
  __device__ __forceinline__ void start(const GpuRow<kConfig>& row) {
    input.start(row);
    const RowTensor& added = row.args.backward.added;
    if (added.data != nullptr) added_words.ask(row.args, row_start<kConfig.out>(added, row.at));
  }
  // x's elements, and beside them those of the output's gradient.
  __device__ __forceinline__ void load(long long n, int count, Piece& x, int j) {
    input.own(n, count, x, j);
    input.other(n, count, dy[j], j);
  }
  // These times the weight, of a piece that was loaded.
  __device__ __forceinline__ void weighted(long long n, int count, Piece& g, int j) const {
    columns.take_weight(n, count, g, j);
    for_elements([&](int i) { g.v[i] = __fmul_rn(g.v[i], dy[j].v[i]); });
  }

  // A sum in registers, or in a part in memory, which `first` begins.
  __device__ __forceinline__ static void add_to(Piece& sum, float* part, bool first, long long n, int count,
                                                const Piece& x) {
    char* const to = reinterpret_cast<char*>(part);
    if constexpr (!kKept) {
      for_elements([&](int i) { sum.v[i] = 0; });
      if (!first) load_piece<DType::kF32, kConfig.whole>(to, DType::kF32, n, count, sum);
    }
    // Rows that are not there have NaN where eps is 0.
    for_elements([&](int i) { sum.v[i] = __fadd_rn(sum.v[i], is_there<kConfig>(i, count) ? x.v[i] : 0); });
    if constexpr (!kKept) store_piece<DType::kF32, kConfig.whole>(to, DType::kF32, n, count, sum);
  }
  __device__ __forceinline__ void store(GpuRow<kConfig>& row, const NormGradient& by) {
    row.template each<false>(
        [&](long long n, int count, Piece& p, int j) { load(n, count, p, j); },
        [&](long long n, int count, Piece& p, int j) {
          const RowArgs& args = anew(row.args);
          const bool first = row.index < args.grid * GpuRow<kConfig>::kRows;
          for_elements([&](int i) { p.v[i] = __fmul_rn(__fadd_rn(p.v[i], -by.about), by.inverse); });
          if (args.backward.weight.data != nullptr) {
            Piece product;
            for_elements([&](int i) { product.v[i] = __fmul_rn(dy[j].v[i], p.v[i]); });
            add_to(weight_sum[j], weight_part(args, blockIdx.x), first, n, count, product);
          }
          if (args.backward.bias.data != nullptr)
            add_to(bias_sum[j], bias_part(args, blockIdx.x), first, n, count, dy[j]);

          Piece g;
          weighted(n, count, g, j);
          for_elements([&](int i) {
            const float along = __fmaf_rn(-p.v[i], by.along, __fadd_rn(g.v[i], -by.mean));
            p.v[i] = __fmul_rn(along, by.inverse);
          });
          const RowTensor& added = args.backward.added;
          if (added.data != nullptr) {
            if constexpr (Added::kAsks) {
              added_words.take(j, count, g);
            } else {
              load_piece<kConfig.out, kConfig.whole>(row_start<kConfig.out>(added, row.at), args.out.dtype, n, count,
                                                     g);
            }
            for_elements([&](int i) { p.v[i] = __fadd_rn(p.v[i], g.v[i]); });
          }
          store_piece<kConfig.out, kConfig.whole>(row_start<kConfig.out>(args.out, row.at), args.out.dtype, n, count,
                                                  p);
        });
  }
  // Behind the last row: what registers have added up.
  __device__ __forceinline__ void store_parts(const RowArgs& args) const {
    if constexpr (kKept) {
      constexpr int kRows = GpuRow<kConfig>::kRows;
      const long long part = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / kConfig.threads;
      const auto store = [&](float* to, const Piece(&sum)[kPieces]) {
        if (to == nullptr) return;
#pragma unroll
        for (int j = 0; j < kPieces; ++j) {
          const int n = j * GpuRow<kConfig>::kStep + row_thread<kConfig>() * kRowPiece;
          const long long left = args.n - n;
          const int count = left <= 0 ? 0 : left < kRowPiece ? static_cast<int>(left) : kRowPiece;
          store_piece<DType::kF32, kConfig.whole>(reinterpret_cast<char*>(to), DType::kF32, n, count, sum[j]);
        }
      };
      store(weight_part(args, part), weight_sum);
      store(bias_part(args, part), bias_sum);
    }
  }
};

// A block's share of the columns, 32 at a time: its warps take parts in turns, and the first one adds what they have found in their order.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void sum_columns(const RowArgs& args) {
  constexpr int kWarps = row_block_threads(kConfig.threads) / kRowLanes;
  auto* const found = reinterpret_cast<float*>(dynamic_shared());
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes, warp = static_cast<int>(threadIdx.x) / kRowLanes;
  const auto sum = [&](const float* parts, const RowSums& to) {
    if (to.data == nullptr) return;
#pragma unroll 1
    for (long long first = static_cast<long long>(blockIdx.x) * kRowLanes; first < args.n;
         first += args.grid * kRowLanes) {
      const long long n = first + lane;
      float all = 0;
      if (n < args.n) {
#pragma unroll 4
        for (long long part = warp; part < args.part_count; part += kWarps)
          all = __fadd_rn(all, parts[part * args.n + n]);
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
  };
  sum(weight_part(args, 0), args.backward.weight);
  sum(bias_part(args, 0), args.backward.bias);
}

// A block's rows, or its share of the columns: gradient(row, rows) finds what a row's gradient is made of.
template <RowGpuConfig kConfig, class Gradient>
__device__ __forceinline__ void for_backward_rows(const RowArgs& given, Gradient&& gradient) {
  if (given.step == RowStep::kColumns) return sum_columns<kConfig>(given);
  BackwardRows<kConfig> rows(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    rows.start(row);
    rows.store(row, gradient(row, rows));
  });
  rows.store_parts(anew(given));
}

}  // namespace tilewright
