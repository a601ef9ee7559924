// SPDX-License-Identifier: MIT
// layer_norm_cpu: a row is read once from memory, and again from the caches: for its mean, for what lies about it, for the output.
// Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void layer_norm_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);

    // Nearly the mean: a sum of N may have lost some of it.
    const auto n = static_cast<float>(args.n);
    float sum[2];  // of values, and of their magnitudes
    sum_row(args.n, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
      const F32x16 v = input.first(piece);
      part[0] = part[0] + v, part[1] = part[1] + absolute(v);
    });
    const float about = near_mean(sum, n, [](float x) { return __builtin_sqrtf(x); });

    // Differences from there lose nothing to cancellation, and their own mean says how far the mean is.
    sum_row(args.n, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
      const F32x16 d = within_row(input.again(piece) - F32x16::splat(about), piece);
      part[0] = part[0] + d, part[1] = fma(d, d, part[1]);
    });
    const RowMoments moments = row_moments(about, sum, n);
    const float inverse = 1 / __builtin_sqrtf(moments.variance + args.eps);

    store_row<kConfig>(args, at, [&](auto piece) __attribute__((always_inline)) {
      F32x16 v = (within_row(input.again(piece) - F32x16::splat(moments.mean), piece)) * F32x16::splat(inverse);
      if (args.round_before_weight) v = rounded_to<kConfig.x>(args.x.dtype, v);
      return scale_columns(args, v, piece);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
