// SPDX-License-Identifier: MIT
// rms_norm_backward_cpu: rows are read once from memory, and again from the caches. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_backward.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void rms_norm_backward_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_backward_rows<kConfig>(args, unit, units, [&](const BackwardRow<kConfig>& row) {
    float sum[2];  // of squares, and of products with the gradient
    sum_row(args.n, sum, [&](F32x16(&part)[2], auto at) __attribute__((always_inline)) {
      const F32x16 x = row.x(at);
      part[0] = fma(x, x, part[0]), part[1] = fma(x, row.weighted(at), part[1]);
    });
    const auto n = static_cast<float>(args.n);
    const float inverse = 1 / __builtin_sqrtf(sum[0] / n + args.eps);
    return NormGradient{0, inverse, 0, sum[1] / n * inverse};
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
