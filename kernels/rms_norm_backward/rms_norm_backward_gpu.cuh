// SPDX-License-Identifier: MIT
// rms_norm_backward_gpu: a row and its gradient are read once and kept in registers; longer ones are read again. Typed by its config, or at
// run time.
#pragma once

#include "tile/gpu/row_backward.cuh"

namespace tilewright {

template <RowGpuConfig kConfig>
__device__ __forceinline__ void rms_norm_backward_gpu(const RowArgs& given) {
  for_backward_rows<kConfig>(given, [&](GpuRow<kConfig>& row, BackwardRows<kConfig>& rows) {
    float sum[2] = {};  // of squares, and of products with the gradient
    row.template each<true>([&](long long n, int count, Piece& p, int j) { rows.load(n, count, p, j); },
                            [&](long long n, int count, Piece& p, int j) {
                              Piece g;
                              rows.weighted(n, count, g, j);
                              for_elements([&](int i) {
                                sum[0] = __fmaf_rn(p.v[i], p.v[i], sum[0]);
                                sum[1] = __fmaf_rn(p.v[i], g.v[i], sum[1]);
                              });
                            });
    row.reduce(sum, sum_of);
    const RowArgs& args = anew(row.args);
    const auto n = static_cast<float>(args.n);
    const float inverse = inverse_root(__fmaf_rn(sum[0], reciprocal_near_one(n), args.eps));
    return NormGradient{0, inverse, 0, __fmul_rn(sum[1] / n, inverse)};
  });
}

}  // namespace tilewright
