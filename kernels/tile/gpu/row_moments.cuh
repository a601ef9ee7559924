// SPDX-License-Identifier: MIT
// Mean and variance of a row on GPUs, in two passes.
#pragma once

#include "tile/gpu/row_input.cuh"

namespace tilewright {

// Of what first(n, count, piece, j) makes; where rows are read again, again(n, count, piece, j) makes the same.
template <RowGpuConfig kConfig, class First, class Again>
__device__ __forceinline__ RowMoments find_moments(GpuRow<kConfig>& row, First&& first, Again&& again) {
  // Nearly the mean: a sum of N may have lost some of it.
  const auto n = static_cast<float>(row.args.n);
  float sum[2] = {};  // of values, and of their magnitudes
  row.template each<true>(first, [&](long long, int, Piece& p) {
    for_elements([&](int i) { sum[0] = __fadd_rn(sum[0], p.v[i]), sum[1] = __fadd_rn(sum[1], fabsf(p.v[i])); });
  });
  row.reduce(sum, sum_of);
  const float about = near_mean(sum, n, [](float x) { return square_root(x); });

  // Differences from there lose nothing to cancellation, and their own mean says how far the mean is.
  sum[0] = sum[1] = 0;  // of differences, and of their squares
  row.template each<false>(again, [&](long long, int count, Piece& p) {
    const int there = anew(count);
    for_elements([&](int i) {
      const float d = is_there<kConfig>(i, there) ? __fadd_rn(p.v[i], -about) : 0;
      sum[0] = __fadd_rn(sum[0], d);
      sum[1] = __fmaf_rn(d, d, sum[1]);
    });
  });
  row.reduce(sum, sum_of);
  return row_moments(about, sum, n);
}

}  // namespace tilewright
