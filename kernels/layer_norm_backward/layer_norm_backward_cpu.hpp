// SPDX-License-Identifier: MIT
// layer_norm_backward_cpu: rows are read once from memory, for their moments, and again from the caches: for their gradient's
// sums, for the gradient. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_backward.hpp"
#include "tile/cpu/row_moments.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void layer_norm_backward_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_backward_rows<kConfig>(args, unit, units, [&](const BackwardRow<kConfig>& row) {
    const auto first = [&](auto at) __attribute__((always_inline)) { return row.first_x(at); };
    const auto x = [&](auto at) __attribute__((always_inline)) { return row.x(at); };
    const RowMoments moments = find_moments(args.n, first);
    const float inverse = 1 / __builtin_sqrtf(moments.variance + args.eps);

    float sum[2];  // of the gradient, and of its products with the normalised elements
    sum_row(args.n, sum, [&](F32x16(&part)[2], auto at) __attribute__((always_inline)) {
      const F32x16 g = within_row(row.weighted(at), at);
      const F32x16 normalised = within_row((x(at) - F32x16::splat(moments.mean)) * F32x16::splat(inverse), at);
      part[0] = part[0] + g, part[1] = fma(g, normalised, part[1]);
    });
    const auto n = static_cast<float>(args.n);
    return NormGradient{moments.mean, inverse, sum[0] / n, sum[1] / n};
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
