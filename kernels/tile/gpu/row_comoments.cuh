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
// Of two that have `count` elements each: the same whichever comes first.
__device__ __forceinline__ Comoments joined_alike(const Comoments& a, const Comoments& b, float count) {
  const float apart = __fadd_rn(b.mean, -a.mean), other_apart = __fadd_rn(b.other_mean, -a.other_mean);
  const float weight = __fmul_rn(apart, 0.5f * count);
  return {__fmul_rn(__fadd_rn(a.mean, b.mean), 0.5f), __fmul_rn(__fadd_rn(a.other_mean, b.other_mean), 0.5f),
          __fmaf_rn(weight, apart, __fadd_rn(a.squares, b.squares)),
          __fmaf_rn(weight, other_apart, __fadd_rn(a.products, b.products))};
}
template <int kLanes>
__device__ __forceinline__ Comoments join_lanes_alike(Comoments mine, float count) {
#pragma unroll
  for (unsigned distance = 1; distance < kLanes; distance *= 2) {
    const Comoments other{lane_xor(mine.mean, distance), lane_xor(mine.other_mean, distance),
                          lane_xor(mine.squares, distance), lane_xor(mine.products, distance)};
    mine = joined_alike(mine, other, count * static_cast<float>(distance));
  }
  return mine;
}
// Of parts of `count` elements each in kParts places, in each thread.
template <int kParts>
__device__ __forceinline__ Comoments join_places_alike(const Comoments* from, float count) {
  constexpr int kLanes = power_at_least(kParts);
  const unsigned lane = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x))) % kLanes;
  if constexpr (kParts == kLanes) return join_lanes_alike<kLanes>(from[lane], count);
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

// Of a full row's elements in the threads of a warp, or in all that there are.
template <RowGpuConfig kConfig>
__device__ __forceinline__ Comoments warp_comoments(const Piece (&x)[kConfig.pieces],
                                                    const Piece (&g)[kConfig.pieces]) {
  constexpr int kPieces = kConfig.pieces, kCount = kPieces * kRowPiece;
  float sum[kPieces], other_sum[kPieces];
#pragma unroll
  for (int j = 0; j < kPieces; ++j) sum[j] = piece_sum(x[j]), other_sum[j] = piece_sum(g[j]);
  Comoments mine{__fmul_rn(sum_by_halves(sum), 1.0f / kCount), __fmul_rn(sum_by_halves(other_sum), 1.0f / kCount), 0,
                 0};
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    for_elements([&](int i) {
      const float d = __fadd_rn(x[j].v[i], -mine.mean);
      mine.squares = __fmaf_rn(d, d, mine.squares);
      mine.products = __fmaf_rn(d, g[j].v[i], mine.products);
    });
  }
  return join_lanes_alike < kConfig.threads<kRowLanes ? kConfig.threads : kRowLanes>(mine, kCount);
}
// Of what its warps found.
template <RowGpuConfig kConfig>
__device__ __forceinline__ Comoments row_comoments(const Comoments* from) {
  return join_places_alike<kConfig.threads / kRowLanes>(from, kConfig.pieces * kRowPiece * kRowLanes);
}

// Of a full row's x, which make(n, count, x, j) makes, and of g, which other(n, count, g, j) makes behind it; in each of its threads.
template <RowGpuConfig kConfig, class Make, class Other>
__device__ __forceinline__ Comoments full_comoments(GpuRow<kConfig>& row, Make&& make, Other&& other) {
  constexpr int kThreads = kConfig.threads;
  static_assert(kConfig.full && kConfig.cluster == 1);
  Piece g[kConfig.pieces];
  row.template each<true>(make, [&](long long n, int count, Piece&, int j) { other(n, count, g[j], j); });
  const Comoments mine = warp_comoments<kConfig>(row.kept, g);
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
