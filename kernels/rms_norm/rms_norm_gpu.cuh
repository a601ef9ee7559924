// SPDX-License-Identifier: MIT
// rms_norm_gpu: a row is read once and kept in registers; longer ones are read again. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void rms_norm_gpu(const RowArgs& given) {
  RowInput<kConfig> input(given);
  const RowColumns<kConfig> columns(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    columns.come_with(input);

    // 1 / sqrt(mean of squares + eps)
    float squares = 0;
    row.template each<true>(
        [&](long long n, int count, Piece& p, int j) { input.first(n, count, p, j); },
        [&](long long, int, Piece& p) { for_elements([&](int i) { squares = __fmaf_rn(p.v[i], p.v[i], squares); }); });
    squares = row.reduce(squares, sum_of);
    const float inverse = inverse_root(__fmaf_rn(squares, inverse_length<kConfig>(args), args.eps));

    store_row<kConfig>(row, [&](long long n, int count, Piece& p, int j) {
      if constexpr (kConfig.pieces == 0) input.again(n, count, p);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], inverse); });
      if (rounds_before_weight<kConfig>(args)) round_piece<kConfig.x>(args.x.dtype, p);
      columns.scale(n, count, p, j);
    });
  });
}

}  // namespace tilewright
