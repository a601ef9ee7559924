// SPDX-License-Identifier: MIT
// What sample's steps on GPUs share: options of a row, tokens of a chunk in registers, their places and masses.
#pragma once

#include "sample/sample_draw.hpp"
#include "tile/gpu/block_select.cuh"

namespace tilewright {

// Chunks whose bins are asked for at once, whether bins are counted that nobody asks for, and whether a block asks for its next chunk. AMD GPUs lack scalar registers, for
// conditions too.
#if defined(__AMDGCN__)
inline constexpr int kChunksAtOnce = 1;
inline constexpr bool kCountsAll = true, kAsksAhead = false;
#else
inline constexpr int kChunksAtOnce = 4;
inline constexpr bool kCountsAll = false, kAsksAhead = true;
#endif

// Lanes of a warp wait for each other; loads stay in front.
__device__ __forceinline__ void meet_lanes() {
#if !defined(__AMDGCN__)
  __syncwarp();
#endif
}

// What all threads have alike, as each one's own: AMD GPUs have no scalar registers for it.
__device__ __forceinline__ float own(float x) { return __builtin_bit_cast(float, anew(__builtin_bit_cast(int, x))); }
__device__ __forceinline__ unsigned own(unsigned x) { return static_cast<unsigned>(anew(static_cast<int>(x))); }
__device__ __forceinline__ unsigned long long own(unsigned long long x) {
  return static_cast<unsigned long long>(own(static_cast<unsigned>(x >> 32))) << 32 | own(static_cast<unsigned>(x));
}
__device__ __forceinline__ SampleRule own_rule(const SampleArgs& args, long long row) {
  SampleRule r = sample_rule(args, row);
  r.inverse = own(r.inverse), r.floor = own(r.floor), r.top_k = own(r.top_k);
  r.share = own(r.share), r.seed = own(r.seed), r.offset = own(r.offset);
  return r;
}

struct SampleWorkspace {
  SampleChunk* chunks;
  SampleBins* bins;
};
__device__ __forceinline__ SampleWorkspace sample_workspace(const SampleArgs& a) {
  SampleWorkspace w;
  w.chunks = reinterpret_cast<SampleChunk*>(a.workspace);
  w.bins = reinterpret_cast<SampleBins*>(w.chunks + a.rows * a.chunks);
  return w;
}

// NaN as minus infinity, plus infinity as the largest number.
__device__ __forceinline__ float clean_logit(float x) { return number_between(x, kNoToken, kMostLogit); }

__device__ __forceinline__ float scaled_difference(float x, float most, float inverse) {
  return __fmul_rn(__fadd_rn(x, -most), inverse);
}
__device__ __forceinline__ float place_of(float x, float factor) { return __fmaf_rn(x, factor, kPlaceOrigin); }
// In units of the bin that has the place.
__device__ __forceinline__ unsigned bin_mass(float x, float factor, float place) {
  return whole_share(exp2_approx(__fmaf_rn(x, factor, __fadd_rn(kPlaceOrigin, -place))));
}

__device__ __forceinline__ float largest_of_block(float x) {
  float one[1] = {x};
  reduce_threads<kSelectThreads>(one, [](float a, float b) { return at_least(a, b); });
  return one[0];
}
__device__ __forceinline__ float sum_of_block(float x) {
  float one[1] = {x};
  reduce_threads<kSelectThreads>(one, sum_of);
  return one[0];
}

template <SampleConfig kConfig>
__device__ __forceinline__ const char* logits_of(const SampleArgs& args, long long row) {
  const int bits = kConfig.x == DType::kNone ? dtype_bits(args.x) : dtype_bits(kConfig.x);
  return static_cast<const char*>(args.logits) + row * args.stride * bits / 8;
}
// One thread's part of a chunk: two pieces of 8 logits.
template <SampleConfig kConfig>
struct ChunkPart {
  static constexpr int kPieces = 2;
  const SampleArgs* args;
  const char* row;
  long long start;    // of the chunk
  int left;           // of the row's logits from there on, no more than a chunk has
  float temperature;  // the row's
  int top_k;
  Piece p[kPieces];

  __device__ __forceinline__ ChunkPart(const SampleArgs& given, long long its_row, long long chunk)
      : args(&given), row(logits_of<kConfig>(given, its_row)), start(chunk * kSampleChunk) {
    const long long rest = given.vocabulary - start;
    left = rest < kSampleChunk ? static_cast<int>(rest) : kSampleChunk;
    temperature = given.temperature == nullptr ? 1 : given.temperature[its_row];
    top_k = given.top_k == nullptr ? 0 : given.top_k[its_row];
  }
  __device__ __forceinline__ static int place(int j) {
    return (j * kSelectThreads + anew(static_cast<int>(threadIdx.x))) * kRowPiece;
  }

  __device__ __forceinline__ long long id(int j, int i) const { return start + place(j) + i; }
  __device__ __forceinline__ int count(int j) const {
    const int here = left - place(j);
    return here < 0 ? 0 : here < kRowPiece ? here : kRowPiece;
  }
  // Asks for the logits; clean() waits for them.
  __device__ __forceinline__ void ask() {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) load_piece<kConfig.x>(row, args->x, id(j, 0), count(j), p[j]);
  }
  __device__ __forceinline__ void clean() {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      for_elements([&](int i) { p[j].v[i] = clean_logit(p[j].v[i]); });
      const int there = count(j);
      if (there < kRowPiece) for_elements([&](int i) { p[j].v[i] = i < there ? p[j].v[i] : kNoToken; });
    }
  }
  __device__ __forceinline__ void load() { ask(), clean(); }
  // body(logit, id) of every token that may be chosen.
  template <class Body>
  __device__ __forceinline__ void each(Body&& body) const {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      for_elements([&](int i) {
        if (p[j].v[i] != kNoToken) body(p[j].v[i], id(j, i));
      });
    }
  }
};

template <SampleConfig kConfig>
__device__ __forceinline__ float logit_at(const SampleArgs& args, const char* row, long long id) {
  Piece one;
  load_piece<kConfig.x>(row, args.x, id, 1, one);
  return clean_logit(one.v[0]);
}

}  // namespace tilewright
