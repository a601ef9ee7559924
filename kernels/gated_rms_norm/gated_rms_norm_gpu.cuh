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
    // The row first: behind weights, 16384 of them took an eighth longer. But nobody waits for kernels in front with these.
    if constexpr (!has_edge(kConfig)) input.start(row);
    // Rows of the third dimension go round among the weight's groups.
    const RowVector& weight = args.weight;
    const long long group = args.weight_groups == 1 ? 0 : row.at.i[2] % args.weight_groups;
    const char* const of_group = static_cast<const char*>(weight.data) + group * args.n * dtype_bits(weight.dtype) / 8;
    constexpr DType kWeight = kColumnType<kConfig>;
    using Words = AskedPieces<kConfig, row_asks_weight(kConfig) ? kWeight : DType::kNone>;
    Words words;
    if (has_weight<kConfig>(args)) words.ask(args, of_group);
    if constexpr (has_edge(kConfig)) input.start(row);
    input.tensors.first.wait_for(words, args);
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
    const float inverse = inverse_root(__fmaf_rn(squares, inverse_length<kConfig>(args), args.eps));

    store_row<kConfig>(row, [&](long long n, int count, Piece& p, int j) {
      if constexpr (kConfig.pieces == 0) make(n, count, p, j);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], inverse); });
      const RowArgs& now = anew(args);
      if (has_weight<kConfig>(now)) {
        Piece factor;
        if constexpr (Words::kAsks) {
          words.take(j, count, factor);
        } else {
          load_piece<kWeight, kConfig.whole>(of_group, now.weight.dtype, n, count, factor);
        }
        for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], factor.v[i]); });
      }
      if (!now.gate_first) gate(n, count, p, j);
    });
  });
}

}  // namespace tilewright
