// SPDX-License-Identifier: MIT
// layer_norm_gpu: a row is read once and kept in registers; longer ones are read again. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_moments.cuh"
#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void layer_norm_gpu(const RowArgs& given) {
  // Where scales are found, nothing behind the row's end counts.
  constexpr bool kPlainOut = kConfig.x != DType::kNone && kConfig.quant == Quantisation::kNone;
  RowInput<kConfig> input(given);
  const RowColumns<kConfig> columns(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    columns.come_with(input);

    const RowMoments moments =
        find_moments(row, [&](long long at, int count, Piece& p, int j) { input.first(at, count, p, j); });
    const float inverse = inverse_root(__fadd_rn(moments.variance, anew(args).eps));

    store_row<kConfig>(row, [&](long long at, int count, Piece& p, int j) {
      if constexpr (kConfig.pieces == 0) input.again(at, count, p);
      const int there = anew(count);
      for_elements([&](int i) {
        const float y = __fmul_rn(__fadd_rn(p.v[i], -moments.mean), inverse);
        p.v[i] = kPlainOut || is_there<kConfig>(i, there) ? y : 0;
      });
      if (rounds_before_weight<kConfig>(anew(args))) round_piece<kConfig.x>(args.x.dtype, p);
      columns.scale(at, count, p, j);
    });
  });
}

}  // namespace tilewright
