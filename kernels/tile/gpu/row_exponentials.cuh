// SPDX-License-Identifier: MIT
// Exponentials of the chunks of long rows, of which probabilities are made.
#pragma once

#include "tile/gpu/row_chunk.cuh"

namespace tilewright {

// Of chunks, a lane each: their largest value, and their sums, of which the first are of exponentials.
template <int kChunks, int kSums>
__device__ __forceinline__ float join_lanes(float most, float (&sums)[kSums], float times) {
  float all[1] = {most};
  reduce_threads<kChunks>(all, [](float a, float b) { return at_least(a, b); });
  sums[0] = __fmul_rn(sums[0], exponential(most, all[0], times));
  reduce_threads<kChunks>(sums, sum_of);
  return all[0];
}

// A chunk's elements as exponentials are made of them. prepare(count, piece) makes them what they are to be, where `negative` their
// negatives; blocks of a cluster make exponentials by the chunk's own largest value, and the only chunk of a block keeps them.
template <RowGpuConfig kConfig>
struct RowExponentials {
  using Chunk = RowChunk<kConfig>;
  static constexpr bool kByOwn = kConfig.cluster > 1, kKeeps = Chunk::kAlone;
  Piece kept[kKeeps ? Chunk::kPieces : 1];

  // body(n, count, piece, j).
  template <class Prepare, class Body>
  __device__ __forceinline__ static void each(const Chunk& part, int chunk, Prepare&& prepare, Body&& body) {
#if !defined(__AMDGCN__)
    if constexpr (Chunk::kAsLies) return part.each_settled(chunk, body);
#endif
    int j = 0;
    part.each_piece(chunk, prepare, [&](long long n, int count, Piece& p) { body(n, count, p, j++); });
  }
  // The chunk's largest value, in all threads.
  template <class Prepare>
  __device__ __forceinline__ static float find_largest(Chunk& part, int chunk, bool negative, Prepare&& prepare) {
    float most = kLeastValue;
#if !defined(__AMDGCN__)
    if constexpr (Chunk::kAsLies) {
      part.settle(chunk, negative);
      most = part.largest_settled(chunk);
    }
#endif
    if constexpr (!Chunk::kAsLies) {
      each(part, chunk, prepare,
           [&](long long, int, const Piece& p, int) { for_elements([&](int i) { most = at_least(p.v[i], most); }); });
    }
    part.own = part.reduce(most, [](float a, float b) { return at_least(a, b); });
    return part.own;
  }
  // The sum of its exponentials; `raw`: the elements themselves are kept.
  template <class Prepare>
  __device__ __forceinline__ float find_sum(Chunk& part, int chunk, float times, bool raw, Prepare&& prepare) {
    float sum = 0;
    const float most = part.own;
    each(part, chunk, prepare, [&](long long, int, const Piece& p, int j) {
      for_elements([&](int i) {
        const float e = exponential(p.v[i], most, times);
        sum = __fadd_rn(sum, e);
        if constexpr (kKeeps) kept[j].v[i] = raw ? p.v[i] : e;
      });
    });
    return part.reduce(sum, sum_of);
  }
  // body(n, count, piece, make) of what is stored: make(v) is the exponential of what a kept or prepared value is.
  template <class Prepare, class Body>
  __device__ __forceinline__ void each_made(const Chunk& part, int chunk, float most, float times, Prepare&& prepare,
                                            Body&& body) const {
    if constexpr (kKeeps) {
      part.each(chunk, [&](long long n, int count, int j) {
        Piece of = kept[j];
        body(n, count, of, [](float e) { return e; });
      });
    } else {
      // Anew, or compilers keep the differences.
      const float base = kByOwn ? renewed(part.own) : most;
      each(part, chunk, prepare, [&](long long n, int count, Piece& of, int) {
        body(n, count, of, [&](float x) { return exponential(x, base, times); });
      });
    }
  }
  // What joins the chunk's exponentials to the row's.
  __device__ __forceinline__ static float joining(const Chunk& part, float most, float times) {
    return kByOwn ? exponential(part.own, most, times) : 1;
  }
};

}  // namespace tilewright
