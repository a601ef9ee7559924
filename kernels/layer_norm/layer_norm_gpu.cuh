// SPDX-License-Identifier: MIT
// layer_norm_gpu: a row is read once and kept in registers; longer ones are read again. Typed by its config, or at run time.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void layer_norm_gpu(const RowArgs& given) {
  RowInput<kConfig> input(given);
  const RowColumns<kConfig> columns(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);

    // Nearly the mean: a sum of N may have lost some of it.
    const auto n = static_cast<float>(args.n);
    float sum[2] = {};  // of values, and of their magnitudes
    row.template each<true>(
        [&](long long at, int count, Piece& p, int j) { input.first(at, count, p, j); },
        [&](long long, int, Piece& p) {
          for_elements([&](int i) { sum[0] = __fadd_rn(sum[0], p.v[i]), sum[1] = __fadd_rn(sum[1], fabsf(p.v[i])); });
        });
    input.ask_next(row);
    row.reduce(sum, sum_of);
    const float about = near_mean(sum, n, [](float x) { return square_root(x); });

    // Differences from there lose nothing to cancellation, and their own mean says how far the mean is.
    sum[0] = sum[1] = 0;  // of differences, and of their squares
    row.template each<false>([&](long long at, int count, Piece& p) { input.again(at, count, p); },
                             [&](long long, int count, Piece& p) {
                               const int there = anew(count);
                               for_elements([&](int i) {
                                 const float d = is_there<kConfig>(i, there) ? __fadd_rn(p.v[i], -about) : 0;
                                 sum[0] = __fadd_rn(sum[0], d);
                                 sum[1] = __fmaf_rn(d, d, sum[1]);
                               });
                             });
    row.reduce(sum, sum_of);
    const RowMoments moments = row_moments(about, sum, n);
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
