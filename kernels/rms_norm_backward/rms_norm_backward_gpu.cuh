// SPDX-License-Identifier: MIT
// rms_norm_backward_gpu: a row and its gradient are read once and kept in registers; longer ones are read again. Typed by its config, or at
// run time.
#pragma once

#include "tile/gpu/row_backward.cuh"
#if !defined(__AMDGCN__)
#include "tile/gpu/row_ahead.cuh"
#endif

namespace tilewright {

template <RowGpuConfig kConfig>
struct RmsNormGradient {
  struct alignas(8) Found {
    float squares, products;  // of x, and with its output's gradient times the weight
  };
  static constexpr int kSums = 2;
  static constexpr bool kCentred = false;

  __device__ __forceinline__ static void add(const Piece& x, const Piece& g, float (&to)[kSums]) {
    for_elements([&](int i) {
      to[0] = __fmaf_rn(x.v[i], x.v[i], to[0]);
      to[1] = __fmaf_rn(x.v[i], g.v[i], to[1]);
    });
  }
  template <int kPieces>
  __device__ __forceinline__ static void shares(const Piece (&x)[kPieces], const Piece (&g)[kPieces],
                                                float (&share)[kSums]) {
    share[0] = share[1] = 0;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) add(x[j], g[j], share);
  }
  __device__ __forceinline__ static Found joined(const Found* places) {
    constexpr int kParts = kConfig.threads / kRowLanes, kLanes = power_at_least(kParts);
    const unsigned lane = threadIdx.x % kLanes;
    const Found mine = places[lane < kParts ? lane : 0];
    float both[2] = {lane < kParts ? mine.squares : 0, lane < kParts ? mine.products : 0};
    reduce_threads<kLanes>(both, sum_of);
    return {both[0], both[1]};
  }
  __device__ __forceinline__ static NormGradient gradient(const RowArgs& args, const Found& all) {
    const float by = inverse_length<kConfig>(args);
    const float inverse = inverse_root(__fmaf_rn(all.squares, by, args.eps));
    return {0, inverse, 0, __fmul_rn(__fmul_rn(all.products, by), inverse)};
  }
};

template <RowGpuConfig kConfig>
__device__ __forceinline__ void rms_norm_backward_rows(const RowArgs& given) {
  using Norm = RmsNormGradient<kConfig>;
  for_backward_rows<kConfig, false>(given, [&](GpuRow<kConfig>& row, BackwardRows<kConfig>& rows) {
    float sum[2] = {};
    row.template each<true>([&](long long n, int count, Piece& p, int j) { rows.load(n, count, p, j); },
                            [&](long long n, int count, Piece& p, int j) {
                              Piece g;
                              rows.weighted(n, count, g, j);
                              Norm::add(p, g, sum);
                            });
    row.reduce(sum, sum_of);
    return Norm::gradient(anew(row.args), {sum[0], sum[1]});
  });
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void rms_norm_backward_gpu(const RowArgs& given) {
#if !defined(__AMDGCN__)
  if constexpr (kConfig.slots > 0) return for_backward_rows_ahead<kConfig, RmsNormGradient<kConfig>>(given);
#endif
  if constexpr (kConfig.slots == 0) return rms_norm_backward_rows<kConfig>(given);
}

}  // namespace tilewright
