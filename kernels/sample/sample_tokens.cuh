// SPDX-License-Identifier: MIT
// What sample's steps on GPUs share: options of a row, tokens of a chunk in registers, their places and masses.
#pragma once

#include "sample/sample_draw.hpp"
#include "tile/common/quotient.hpp"
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

// kFree: nobody reads any longer what the reduction before left in this place.
template <bool kFree = false>
__device__ __forceinline__ float largest_of_block(float x, int place = 0) {
  float one[1] = {x};
  reduce_threads<kSelectThreads, kFree>(one, [](float a, float b) { return at_least(a, b); }, place);
  return one[0];
}
__device__ __forceinline__ float sum_of_block(float x) {
  float one[1] = {x};
  reduce_threads<kSelectThreads>(one, sum_of);
  return one[0];
}

template <SampleConfig kConfig>
__device__ __forceinline__ int logit_bits(const SampleArgs& args) {
  return kConfig.x == DType::kNone ? dtype_bits(args.x) : dtype_bits(kConfig.x);
}
template <SampleConfig kConfig>
__device__ __forceinline__ const char* logits_of(const SampleArgs& args, long long row) {
  return static_cast<const char*>(args.logits) + row * args.stride * logit_bits<kConfig>(args) / 8;
}
// One thread's part of a chunk: two pieces of 8 logits.
template <SampleConfig kConfig>
struct ChunkPart {
  static constexpr int kPieces = 2, kWhole = 2 * kSampleChunk;
  const SampleArgs* args;
  long long offset;  // of the chunk's logits in bytes
  int chunk;         // of the row's
  int left;  // of the row's logits from there on, no more than a chunk has; kWhole where loads of 16 bytes take all of it
  float temperature;  // the row's
  int top_k;
  Piece p[kPieces];

  __device__ __forceinline__ ChunkPart(const SampleArgs& given, long long row, long long its_chunk) : args(&given) {
    go_to(row, its_chunk);
  }
  __device__ __forceinline__ const char* from() const { return static_cast<const char*>(args->logits) + offset; }
  __device__ __forceinline__ long long start() const { return static_cast<long long>(chunk) * kSampleChunk; }
  __device__ __forceinline__ void go_to(long long row, long long its_chunk) {
    chunk = static_cast<int>(its_chunk);  // of 2^31 tokens at most
    offset = (row * args->stride + start()) * logit_bits<kConfig>(*args) / 8;
    temperature = args->temperature == nullptr ? 1 : args->temperature[row];
    top_k = args->top_k == nullptr ? 0 : args->top_k[row];
    measure();
  }
  // To the one behind it, which is the item.
  __device__ __forceinline__ void go_on(long long item) {
    if (chunk + 1 == static_cast<int>(args->chunks)) return go_to(divided_by(item, args->chunks).whole, 0);
    ++chunk, offset += kSampleChunk * logit_bits<kConfig>(*args) / 8;
    measure();
  }
  __device__ __forceinline__ void measure() {
    const long long rest = args->vocabulary - start();
    left = rest < kSampleChunk ? static_cast<int>(rest) : kSampleChunk;
    if (left == kSampleChunk && (reinterpret_cast<unsigned long long>(from()) & 15) == 0) left = kWhole;
  }
  __device__ __forceinline__ static int place(int j) {
    return (j * kSelectThreads + anew(static_cast<int>(threadIdx.x))) * kRowPiece;
  }

  __device__ __forceinline__ long long id(int j, int i) const { return start() + place(j) + i; }
  __device__ __forceinline__ int count(int j) const {
    const int here = left - place(j);
    return here < 0 ? 0 : here < kRowPiece ? here : kRowPiece;
  }
  // Asks for the logits; clean() waits for them.
  __device__ __forceinline__ void ask() {
    if (left == kWhole) {
#pragma unroll
      for (int j = 0; j < kPieces; ++j) load_piece<kConfig.x, true>(from(), args->x, place(j), kRowPiece, p[j]);
      return;
    }
#pragma unroll
    for (int j = 0; j < kPieces; ++j) load_piece<kConfig.x>(from(), args->x, place(j), count(j), p[j]);
  }
  // The largest one.
  __device__ __forceinline__ float clean() {
    const float most = largest();
    // Numbers have a number for their largest.
    if (left == kWhole && most <= kMostLogit) return most;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int there = count(j);
      for_elements([&](int i) { p[j].v[i] = i < there ? clean_logit(p[j].v[i]) : kNoToken; });
    }
    return largest();
  }
  __device__ __forceinline__ float load() { return ask(), clean(); }
  __device__ __forceinline__ float largest() const {
    float most = kNoToken;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) for_elements([&](int i) { most = at_least(p[j].v[i], most); });
    return most;
  }
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
