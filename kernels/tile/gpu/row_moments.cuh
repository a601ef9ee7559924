// SPDX-License-Identifier: MIT
// Mean and variance of a row on GPUs in one pass: pieces, threads, warps and blocks of a cluster have moments of their own, which are
// joined. Source: Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (The American Statistician 37, 1983).
#pragma once

#include "tile/gpu/row_input.cuh"

namespace tilewright {

// The mean of `count` elements, and the sum of the squares of their differences from it.
struct Moments {
  float mean, squares, count;
};
// Field by field: a choice between two structs would have them in memory.
__device__ __forceinline__ Moments chosen(bool first, const Moments& a, const Moments& b) {
  return {first ? a.mean : b.mean, first ? a.squares : b.squares, first ? a.count : b.count};
}
// Of two parts, where `part` is the second's share of the elements. Of equal means the mean is that mean, to the bit.
__device__ __forceinline__ Moments joined(const Moments& a, const Moments& b, float part) {
  const float apart = __fadd_rn(b.mean, -a.mean);
  return {__fmaf_rn(apart, part, a.mean),
          __fmaf_rn(__fmul_rn(apart, apart), __fmul_rn(a.count, part), __fadd_rn(a.squares, b.squares)),
          __fadd_rn(a.count, b.count)};
}
__device__ __forceinline__ Moments joined(const Moments& a, const Moments& b) {
  const float count = at_least(__fadd_rn(a.count, b.count), 1.0f);
  const Moments both = joined(a, b, __fmul_rn(b.count, reciprocal_near_one(count)));
  return chosen(a.count == 0, b, both);
}
// Of two that have as many elements: the same whichever comes first.
__device__ __forceinline__ Moments joined_alike(const Moments& a, const Moments& b) {
  const float apart = __fadd_rn(b.mean, -a.mean);
  return {__fmul_rn(__fadd_rn(a.mean, b.mean), 0.5f),
          __fmaf_rn(__fmul_rn(apart, apart), __fmul_rn(a.count, 0.5f), __fadd_rn(a.squares, b.squares)),
          __fadd_rn(a.count, b.count)};
}

// The sum of 8, or so many, by halves: equal elements add up exactly.
template <int kCount>
__device__ __forceinline__ float sum_by_halves(float (&sum)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) sum[i] = __fadd_rn(sum[i], sum[i + half]);
  }
  return sum[0];
}
__device__ __forceinline__ float piece_sum(Piece p) { return sum_by_halves(p.v); }
__device__ __forceinline__ float add_squares(const Piece& p, float mean, float squares) {
  for_elements([&](int i) {
    const float d = __fadd_rn(p.v[i], -mean);
    squares = __fmaf_rn(d, d, squares);
  });
  return squares;
}

// Of a piece: equal elements add up exactly, or differ by zeros from the first.
template <bool kWhole>
__device__ __forceinline__ Moments piece_moments(const Piece& p, int count) {
  Moments of{0, 0, static_cast<float>(count)};
  if constexpr (kWhole) {
    of.mean = __fmul_rn(piece_sum(p), 1.0f / kRowPiece);
    of.squares = add_squares(p, of.mean, 0);
    return of;
  }
  float sum = 0;
  for_elements([&](int i) { sum = __fadd_rn(sum, i < count ? __fadd_rn(p.v[i], -p.v[0]) : 0); });
  of.mean = __fmaf_rn(sum, reciprocal_near_one(at_least(of.count, 1.0f)), p.v[0]);
  for_elements([&](int i) {
    const float d = __fadd_rn(p.v[i], -of.mean);
    of.squares = i < count ? __fmaf_rn(d, d, of.squares) : of.squares;
  });
  return of;
}

// Of as many elements each in kLanes neighbours, in each of them.
template <int kLanes>
__device__ __forceinline__ void join_lanes_alike(Moments& mine) {
#pragma unroll
  for (unsigned distance = 1; distance < kLanes; distance *= 2) {
    mine = joined_alike(mine, {lane_xor(mine.mean, distance), lane_xor(mine.squares, distance), mine.count});
  }
}
// Of any number of them.
template <int kLanes>
__device__ __forceinline__ void join_lanes(Moments& mine) {
  const auto me = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x)));
#pragma unroll
  for (unsigned distance = 1; distance < kLanes; distance *= 2) {
    const Moments other{lane_xor(mine.mean, distance), lane_xor(mine.squares, distance),
                        lane_xor(mine.count, distance)};
    const bool lower = (me & distance) == 0;
    mine = joined(chosen(lower, mine, other), chosen(lower, other, mine));
  }
}

// Of as many elements each in kParts places, in each thread.
template <int kParts>
__device__ __forceinline__ Moments join_places_alike(const Moments* from, float count) {
  constexpr int kLanes = power_at_least(kParts);
  const unsigned lane = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x))) % kLanes;
  if constexpr (kParts == kLanes) {
    Moments mine{from[lane].mean, from[lane].squares, count};
    join_lanes_alike<kLanes>(mine);
    return mine;
  }
  // About the first one's mean: of equal means the mean is that mean.
  const bool there = lane < kParts;
  const Moments& part = from[there ? lane : 0];
  const float first = from[0].mean,
              mean = __fmaf_rn(lanes_sum<kLanes>(__fadd_rn(part.mean, -first)), 1.0f / kParts, first);
  const float apart = __fadd_rn(part.mean, -mean);
  const float squares = there ? __fmaf_rn(__fmul_rn(apart, apart), count, part.squares) : 0;
  return {mean, lanes_sum<kLanes>(squares), count * kParts};
}

// Of kThreads neighbours, in each of them, by a place of shared memory that nobody reads any longer. kAlike: all of them have as many
// elements.
template <int kThreads, bool kAlike>
__device__ __forceinline__ Moments join_neighbours(Moments mine, int place = 0) {
  constexpr int kTogether = kThreads < kRowLanes ? kThreads : kRowLanes;
  if constexpr (kAlike) {
    join_lanes_alike<kTogether>(mine);
  } else {
    join_lanes<kTogether>(mine);
  }
  if constexpr (kThreads > kRowLanes) {
    constexpr int kParts = kThreads / kRowLanes;
    static_assert(sizeof(Moments) <= kRowReduced * sizeof(float));
    const auto me = static_cast<unsigned>(anew(static_cast<int>(threadIdx.x)));
    auto* const parts = reinterpret_cast<Moments*>(dynamic_shared() + place * kRowLeftFloats * sizeof(float));
    if (me % kRowLanes == 0) parts[me / kRowLanes] = mine;
    __syncthreads();
    const Moments* const from = parts + row_of_block<kThreads>() * kParts;
    if constexpr (kAlike) {
      mine = join_places_alike<kParts>(from, mine.count);
    } else {
      mine = from[0];
#pragma unroll
      for (int i = 1; i < kParts; ++i) mine = joined(mine, from[i]);
    }
  }
  return mine;
}
// Of the blocks of a cluster, what all threads of each have alike.
template <int kBlocks>
__device__ __forceinline__ Moments join_blocks(RowCluster<kBlocks>& cluster, Moments mine) {
  if constexpr (kBlocks > 1) {
    struct alignas(16) Found {
      Moments of;
      float unused;
    };
    const Found* const found = cluster.exchange(Found{mine, 0});
    mine = found[0].of;
#pragma unroll
    for (int block = 1; block < kBlocks; ++block) mine = joined(mine, found[block].of);
  }
  return mine;
}

// Of all threads of the row, in each of them.
template <bool kAlike, RowGpuConfig kConfig>
__device__ __forceinline__ Moments join_threads(GpuRow<kConfig>& row, Moments mine) {
  mine = join_neighbours<kConfig.threads, kAlike>(mine, row.place);
  if constexpr (kConfig.threads > kRowLanes) row.place ^= 1;
  if constexpr (kConfig.cluster > 1) mine = join_blocks(row.cluster, mine);
  return mine;
}

// Of a full row.
template <RowGpuConfig kConfig, class Make>
__device__ __forceinline__ Moments full_moments(GpuRow<kConfig>& row, Make&& make) {
  constexpr int kPieces = kConfig.pieces, kCount = kPieces * kRowPiece;
  float sum[kPieces];
  row.template each<true>(make, [&](long long, int, Piece& p, int j) { sum[j] = piece_sum(p); });
  Moments mine{__fmul_rn(sum_by_halves(sum), 1.0f / kCount), 0, kCount};
#pragma unroll
  for (int j = 0; j < kPieces; ++j) mine.squares = add_squares(row.kept[j], mine.mean, mine.squares);
  return join_threads<true>(row, mine);
}
template <RowGpuConfig kConfig, class Make>
__device__ __forceinline__ Moments partial_moments(GpuRow<kConfig>& row, Make&& make) {
  Moments mine{0, 0, 0};
  row.template each<true>(make, [&](long long, int count, Piece& p, int j) {
    const int there = anew(count);
    const Moments of = piece_moments<kConfig.whole>(p, there);
    if constexpr (kConfig.whole && kConfig.pieces > 0) {
      const Moments both = j == 0 ? of : joined(mine, of, 1.0f / static_cast<float>(j + 1));
      mine = chosen(there > 0, both, mine);
    } else {
      mine = joined(mine, of);
    }
  });
  return join_threads<false>(row, mine);
}

// Of what make(n, count, piece, j) makes.
template <RowGpuConfig kConfig, class Make>
__device__ __forceinline__ RowMoments find_moments(GpuRow<kConfig>& row, Make&& make) {
  Moments all;
  if constexpr (kConfig.full) {
    all = full_moments(row, make);
  } else {
    all = partial_moments(row, make);
  }
  return {all.mean, __fmul_rn(all.squares, inverse_length<kConfig>(anew(row.args)))};
}

}  // namespace tilewright
