// SPDX-License-Identifier: MIT
// layer_norm_backward_gpu: a row and its gradient are read once and kept in registers; longer ones are read again. Typed by its config, or
// at run time.
#pragma once

#include "tile/gpu/row_backward.cuh"
#include "tile/gpu/row_comoments.cuh"
#if !defined(__AMDGCN__)
#include "tile/gpu/row_ahead.cuh"
#endif

namespace tilewright {

// Of a full row: the sum of g's products with normalised elements is that with x's differences, times `inverse`.
template <RowGpuConfig kConfig>
struct LayerNormGradient {
  using Found = Comoments;
  static constexpr bool kCentred = true;
  static constexpr int kSums = 4;
  template <int kPieces>
  __device__ __forceinline__ static void shares(const Piece (&x)[kPieces], const Piece (&g)[kPieces],
                                                float (&share)[kSums]) {
    comoment_shares<kConfig>(x, g, share);
  }
  __device__ __forceinline__ static Found joined(const Found* places) { return row_comoments<kConfig>(places); }
  __device__ __forceinline__ static NormGradient gradient(const RowArgs& args, const Found& all) {
    const float by = inverse_length<kConfig>(args);
    const float inverse = inverse_root(__fmaf_rn(all.squares, by, args.eps));
    return {all.mean, inverse, all.other_mean, __fmul_rn(__fmul_rn(all.products, by), inverse)};
  }
};

template <RowGpuConfig kConfig>
__device__ __forceinline__ void layer_norm_backward_rows(const RowArgs& given) {
  for_backward_rows<kConfig, true>(given, [&](GpuRow<kConfig>& row, BackwardRows<kConfig>& rows) {
    if constexpr (kConfig.full) {
      const Comoments all = full_comoments(
          row, [&](long long n, int count, Piece& p, int j) { rows.load(n, count, p, j); },
          [&](long long n, int count, Piece& g, int j) { rows.weighted(n, count, g, j); });
      return LayerNormGradient<kConfig>::gradient(anew(row.args), all);
    } else {
      const auto load = [&](long long n, int count, Piece& p, int j) { rows.load(n, count, p, j); };
      const RowMoments moments = find_moments(row, load);
      const float inverse = inverse_root(__fadd_rn(moments.variance, anew(row.args).eps));

      float sum[2] = {};  // of the gradient, and of its products with the normalised elements
      row.template each<false>(load, [&](long long n, int count, Piece& p, int j) {
        Piece g;
        rows.weighted(n, count, g, j);
        const int there = anew(count);
        for_elements([&](int i) {
          const float normalised = __fmul_rn(__fadd_rn(p.v[i], -moments.mean), inverse);
          sum[0] = __fadd_rn(sum[0], g.v[i]);
          sum[1] = is_there<kConfig>(i, there) ? __fmaf_rn(g.v[i], normalised, sum[1]) : sum[1];
        });
      });
      row.reduce(sum, sum_of);
      const auto n = static_cast<float>(anew(row.args).n);
      return NormGradient{moments.mean, inverse, sum[0] / n, sum[1] / n};
    }
  });
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void layer_norm_backward_gpu(const RowArgs& given) {
#if !defined(__AMDGCN__)
  if constexpr (kConfig.slots > 0) return for_backward_rows_ahead<kConfig, LayerNormGradient<kConfig>>(given);
#endif
  if constexpr (kConfig.slots == 0) return layer_norm_backward_rows<kConfig>(given);
}

}  // namespace tilewright
