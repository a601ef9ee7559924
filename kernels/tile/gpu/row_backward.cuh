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
#if defined(__AMDGCN__)
  static constexpr bool kAhead = false;  // has no registers for it
#else
  // The next row is asked for before this one is reduced, and both stay as they lie.
  static constexpr bool kAhead =
      kConfig.whole && kKept && dtype_bits(kConfig.x) == 16 && dtype_bits(kConfig.residual) == 16;
#endif
  // For floats of 32 bits there are no registers.
  using Added = AskedPieces<kConfig, kConfig.out == DType::kF32 ? DType::kNone : kConfig.out>;
  RowInput<kConfig> input;
  typename RowInput<kConfig>::Tensors coming;
  RowColumns<kConfig> columns;
  Added added_words;
  Piece dy[kPieces], weight_sum[kPieces], bias_sum[kPieces];

  __device__ __forceinline__ explicit BackwardRows(const RowArgs& given) : input(given), columns(given) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) for_elements([&](int i) { weight_sum[j].v[i] = bias_sum[j].v[i] = 0; });
    if constexpr (kAhead)
      ask(given, static_cast<long long>(blockIdx.x) * GpuRow<kConfig>::kRows + threadIdx.x / kConfig.threads);
  }
  // Behind the last row that one again.
  __device__ __forceinline__ void ask(const RowArgs& args, long long row) {
    const long long known = row < args.rows ? row : args.rows - 1;
    const RowIndex at = kConfig.plain ? RowIndex{{0, 0, known}} : row_index(args, known);
    coming.first.ask(args, row_start<kConfig.x>(args.x, at));
    coming.second.ask(args, row_start<kConfig.residual>(args.residual, at));
  }
  __device__ __forceinline__ void start(const GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    const RowTensor& added = args.backward.added;
    if (added.data != nullptr) added_words.ask(args, row_start<kConfig.out>(added, row.at));
    if constexpr (kAhead) {
      input.tensors = coming;
      ask(args, row.index + args.grid * GpuRow<kConfig>::kRows);
    } else {
      input.start(row);
    }
  }
  // x's elements, and beside them those of the output's gradient.
  __device__ __forceinline__ void load(long long n, int count, Piece& x, int j) {
    if constexpr (kAhead) input.tensors.renew(j);
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
    row.template each<kAhead>(
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
          store_together<kConfig.out, kConfig.whole>(row_start<kConfig.out>(args.out, row.at), args.out.dtype, n, count,
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
          const int count = kConfig.full       ? kRowPiece
                            : left <= 0        ? 0
                            : left < kRowPiece ? static_cast<int>(left)
                                               : kRowPiece;
          store_piece<DType::kF32, kConfig.whole>(reinterpret_cast<char*>(to), DType::kF32, n, count, sum[j]);
        }
      };
      store(weight_part(args, part), weight_sum);
      store(bias_part(args, part), bias_sum);
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
#pragma unroll 1
  for (long long first = block * kRowLanes; first < args.n; first += args.grid / each * kRowLanes) {
    const long long n = first + lane, known = n < args.n ? n : args.n - 1;
    float all = 0;
#pragma unroll 1
    for (long long part = warp; part < args.part_count; part += kAtOnce * kWarps) {
      float next[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const long long at = part + i * kWarps;
        next[i] = parts[(at < args.part_count ? at : part) * args.n + known];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) all = part + i * kWarps < args.part_count ? __fadd_rn(all, next[i]) : all;
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
