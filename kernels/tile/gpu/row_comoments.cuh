// SPDX-License-Identifier: MIT
// Moments of a full row and what its elements have to do with others beside them, in one pass and one exchange. As row_moments.cuh; the sum of
// products of differences is joined as that of squares is (Schubert and Gertz, Numerically Stable Parallel Computation of (Co-)Variance, SSDBM 2018).
#pragma once

#include "tile/gpu/row_moments.cuh"

namespace tilewright {

// Means of x and of g, the squares of x's differences from its mean, and their products with g's.
struct alignas(16) Comoments {
  float mean, other_mean, squares, products;
};
// Of parts of `count` elements each in kParts places, in each thread.
template <int kParts>
__device__ __forceinline__ Comoments join_places_alike(const Comoments* from, float count) {
  constexpr int kLanes = power_at_least(kParts);
  const unsigned lane = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x))) % kLanes;
  // About the first one's means.
  const bool there = lane < kParts;
  const Comoments part = from[there ? lane : 0], first = from[0];
  const float sum = lanes_sum<kLanes>(__fadd_rn(part.mean, -first.mean));
  const float other_sum = lanes_sum<kLanes>(__fadd_rn(part.other_mean, -first.other_mean));
  const float mean = __fmaf_rn(sum, 1.0f / kParts, first.mean);
  const float other_mean = __fmaf_rn(other_sum, 1.0f / kParts, first.other_mean);
  const float apart = __fadd_rn(part.mean, -mean), weight = __fmul_rn(apart, count);
  const float squares = there ? __fmaf_rn(weight, apart, part.squares) : 0;
  const float products = there ? __fmaf_rn(weight, __fadd_rn(part.other_mean, -other_mean), part.products) : 0;
  return {mean, other_mean, lanes_sum<kLanes>(squares), lanes_sum<kLanes>(products)};
}

// Of a full row's elements in the threads of a warp, or in all that there are: what the lanes' sums are. About the warp's mean, which is
// found first; each lane has its share of it.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void comoment_shares(const Piece (&x)[kConfig.pieces], const Piece (&g)[kConfig.pieces],
                                                float (&share)[4]) {
  constexpr int kPieces = kConfig.pieces, kLanes = kConfig.threads < kRowLanes ? kConfig.threads : kRowLanes;
  constexpr float kPart = 1.0f / (kPieces * kRowPiece * kLanes);
  float sum[kPieces], other_sum[kPieces];
#pragma unroll
  for (int j = 0; j < kPieces; ++j) sum[j] = piece_sum(x[j]), other_sum[j] = piece_sum(g[j]);
  const float mean = __fmul_rn(lanes_sum<kLanes>(sum_by_halves(sum)), kPart);
  share[0] = __fmul_rn(mean, 1.0f / kLanes), share[1] = __fmul_rn(sum_by_halves(other_sum), kPart);
  share[2] = share[3] = 0;
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    for_elements([&](int i) {
      const float d = __fadd_rn(x[j].v[i], -mean);
      share[2] = __fmaf_rn(d, d, share[2]);
      share[3] = __fmaf_rn(d, g[j].v[i], share[3]);
    });
  }
}
// Of what its warps found.
template <RowGpuConfig kConfig>
__device__ __forceinline__ Comoments row_comoments(const Comoments* from) {
  return join_places_alike<kConfig.threads / kRowLanes>(from, kConfig.pieces * kRowPiece * kRowLanes);
}

// Of a full row's x, which make(n, count, x, j) makes, and of g, which other(n, count, g, j) makes behind it; in each of its threads.
template <RowGpuConfig kConfig, class Make, class Other>
__device__ __forceinline__ Comoments full_comoments(GpuRow<kConfig>& row, Make&& make, Other&& other) {
  constexpr int kThreads = kConfig.threads, kLanes = kThreads < kRowLanes ? kThreads : kRowLanes;
  static_assert(kConfig.full && kConfig.cluster == 1);
  Piece g[kConfig.pieces];
  row.template each<true>(make, [&](long long n, int count, Piece&, int j) { other(n, count, g[j], j); });
  float sums[4];
  comoment_shares<kConfig>(row.kept, g, sums);
  reduce_threads<kLanes>(sums, sum_of);
  const Comoments mine{sums[0], sums[1], sums[2], sums[3]};
  if constexpr (kThreads <= kRowLanes) return mine;
  if constexpr (kThreads > kRowLanes) {
    static_assert(row_block_threads(kThreads) / kRowLanes * 4 <= kRowLeftFloats);
    const auto me = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x)));
    auto* const parts = reinterpret_cast<Comoments*>(dynamic_shared() + row.place * kRowLeftFloats * sizeof(float));
    row.place ^= 1;
    if (me % kRowLanes == 0) parts[me / kRowLanes] = mine;
    __syncthreads();
    return row_comoments<kConfig>(parts + row_of_block<kThreads>() * (kThreads / kRowLanes));
  }
}

}  // namespace tilewright
