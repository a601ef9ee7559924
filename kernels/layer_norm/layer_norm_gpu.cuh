// SPDX-License-Identifier: MIT
// layer_norm_gpu: a row is read once and kept in registers; longer ones are read again. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_moments.cuh"
#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void layer_norm_gpu(const RowArgs& given) {
  RowInput<kConfig> input(given);
  const RowColumns<kConfig> columns(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);

    const RowMoments moments = find_moments(
        row, [&](long long at, int count, Piece& p, int j) { input.first(at, count, p, j); },
        [&](long long at, int count, Piece& p, int) { input.again(at, count, p); });
    const float inverse = 1 / square_root(__fadd_rn(moments.variance, anew(args).eps));

    store_row<kConfig>(row, [&](long long at, int count, Piece& p, int j) {
      if constexpr (kConfig.pieces == 0) input.again(at, count, p);
      const int there = anew(count);
      for_elements([&](int i) {
        p.v[i] = is_there<kConfig>(i, there) ? __fmul_rn(__fadd_rn(p.v[i], -moments.mean), inverse) : 0;
      });
      if (anew(args).round_before_weight) round_piece<kConfig.x>(args.x.dtype, p);
      columns.scale(at, count, p, j);
    });
  });
}

}  // namespace tilewright
