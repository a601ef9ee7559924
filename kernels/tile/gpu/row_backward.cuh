// SPDX-License-Identifier: MIT
// What the gradients of norms end with: x's gradient of a row, and sums of columns over rows. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/row_column_sums.cuh"
#include "tile/gpu/row_input.cuh"

namespace tilewright {

// x becomes its difference from the mean, where there is one (kCentred), and its output's gradient is given times `inverse`: their products are
// those of normalised elements with the gradient.
template <bool kCentred>
__device__ __forceinline__ Piece centre(const NormGradient& by, const Piece& dy, Piece& x) {
  Piece scaled;
  for_elements([&](int i) {
    if constexpr (kCentred) x.v[i] = __fadd_rn(x.v[i], -by.about);
    scaled.v[i] = __fmul_rn(dy.v[i], by.inverse);
  });
  return scaled;
}
// And these x's gradient.
template <bool kCentred>
__device__ __forceinline__ void take_gradient(const NormGradient& by, const Piece& scaled, const Piece& weight,
                                              Piece& x) {
  const float mean = __fmul_rn(-by.mean, by.inverse), along = __fmul_rn(__fmul_rn(-by.along, by.inverse), by.inverse);
  for_elements([&](int i) {
    const float own = kCentred ? __fmaf_rn(scaled.v[i], weight.v[i], mean) : __fmul_rn(scaled.v[i], weight.v[i]);
    x.v[i] = __fmaf_rn(x.v[i], along, own);
  });
}

// Rows of x and their outputs' gradients.
template <RowGpuConfig kConfig>
struct BackwardRows {
  static constexpr int kPieces = BackwardSums<kConfig>::kPieces;
  // For floats of 32 bits there are no registers.
  using Added = AskedPieces<kConfig, kConfig.out == DType::kF32 ? DType::kNone : kConfig.out>;
  RowInput<kConfig> input;
  RowColumns<kConfig> columns;
  Added added_words;
  Piece dy[kPieces];
  BackwardSums<kConfig> sums;

  __device__ __forceinline__ explicit BackwardRows(const RowArgs& given) : input(given), columns(given) {}
  __device__ __forceinline__ void start(const GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    const RowTensor& added = args.backward.added;
    if constexpr (fetches_rows(kConfig)) {
      if (added.data != nullptr) Added::fetch(args, row_start<kConfig.out>(added, row.at));
    }
    input.start(row);
    if (added.data != nullptr) added_words.ask(args, row_start<kConfig.out>(added, row.at));
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
  template <bool kCentred>
  __device__ __forceinline__ void store(GpuRow<kConfig>& row, const NormGradient& by) {
    row.template each<false>([&](long long n, int count, Piece& p, int j) { load(n, count, p, j); },
                             [&](long long n, int count, Piece& p, int j) {
                               const RowArgs& args = anew(row.args);
                               const bool first = row.index < args.grid * GpuRow<kConfig>::kRows;
                               const Piece scaled = centre<kCentred>(by, dy[j], p);
                               sums.add(args, first, n, count, j, p, scaled, dy[j]);
                               Piece g;
                               columns.take_weight(n, count, g, j);
                               take_gradient<kCentred>(by, scaled, g, p);
                               const RowTensor& added = args.backward.added;
                               if (added.data != nullptr) {
                                 if constexpr (Added::kAsks) {
                                   added_words.take(j, count, g);
                                 } else {
                                   load_piece<kConfig.out, kConfig.whole>(row_start<kConfig.out>(added, row.at),
                                                                          args.out.dtype, n, count, g);
                                 }
                                 for_elements([&](int i) { p.v[i] = __fadd_rn(p.v[i], g.v[i]); });
                               }
                               store_together<kConfig.out, kConfig.whole>(row_start<kConfig.out>(args.out, row.at),
                                                                          args.out.dtype, n, count, p);
                             });
  }
};

// A block's rows, or its share of the columns: gradient(row, rows) finds what a row's gradient is made of.
template <RowGpuConfig kConfig, bool kCentred, class Gradient>
__device__ __forceinline__ void for_backward_rows(const RowArgs& given, Gradient&& gradient) {
  allow_next_kernel();
  if (!has_edge(kConfig) || given.step == RowStep::kColumns) wait_for_previous_kernel();
  if (given.step == RowStep::kColumns) return sum_columns<kConfig>(given);
  BackwardRows<kConfig> rows(given);
  for_rows<kConfig, true>(given, [&](GpuRow<kConfig>& row) {
    rows.start(row);
    rows.template store<kCentred>(row, gradient(row, rows));
  });
  rows.sums.store(anew(given));
}

}  // namespace tilewright
