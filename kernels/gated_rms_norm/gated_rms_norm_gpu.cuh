// SPDX-License-Identifier: MIT
// gated_rms_norm_gpu: rows, or groups of a row, over the root of their mean square, times a weight, and times silu(z) before or behind
// that. A row is read once and kept in registers; longer ones are read again. Typed by its config, or at run time.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"
#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void gated_rms_norm_gpu(const RowArgs& given) {
  RowInput<kConfig> input(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    const auto gate = [&](long long n, int count, Piece& p, int j) {
      Piece z;
      input.other(n, count, z, j);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], activate<Activation::kSilu>(z.v[i], 0, 0)); });
    };
    const auto make = [&](long long n, int count, Piece& p, int j) {
      input.own(n, count, p, j);
      if (anew(args).gate_first) gate(n, count, p, j);
    };

    // 1 / sqrt(mean of squares + eps)
    float squares = 0;
    row.template each<true>(make, [&](long long, int, Piece& p) {
      for_elements([&](int i) { squares = __fmaf_rn(p.v[i], p.v[i], squares); });
    });
    squares = row.reduce(squares, sum_of);
    const float inverse = inverse_root(__fmaf_rn(squares, reciprocal_near_one(static_cast<float>(args.n)), args.eps));

    // Rows of the third dimension go round among the weight's groups.
    const RowVector& weight = args.weight;
    const char* const of_group =
        static_cast<const char*>(weight.data) +
        (weight.data == nullptr ? 0 : row.at.i[2] % args.weight_groups * args.n * dtype_bits(weight.dtype) / 8);
    store_row<kConfig>(row, [&](long long n, int count, Piece& p, int j) {
      if constexpr (kConfig.pieces == 0) make(n, count, p, j);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], inverse); });
      const RowArgs& now = anew(args);
      if (now.weight.data != nullptr) {
        Piece factor;
        load_piece<kColumnType<kConfig>, kConfig.whole>(of_group, now.weight.dtype, n, count, factor);
        for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], factor.v[i]); });
      }
      if (!now.gate_first) gate(n, count, p, j);
    });
  });
}

}  // namespace tilewright
