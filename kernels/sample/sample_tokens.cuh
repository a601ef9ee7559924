// SPDX-License-Identifier: MIT
// What sample's steps on GPUs share: options of a row, tokens of a chunk in registers, their bins, masses and races.
#pragma once

#include "sample/sample_args.hpp"
#include "tile/common/logarithms.hpp"
#include "tile/gpu/block_select.cuh"

namespace tilewright {

// Chunks whose bins are asked for at once, and whether bins are counted that nobody asks for. AMD GPUs lack scalar registers, for
// conditions too.
#if defined(__AMDGCN__)
inline constexpr int kChunksAtOnce = 1;
inline constexpr bool kCountsAll = true;
#else
inline constexpr int kChunksAtOnce = 4;
inline constexpr bool kCountsAll = false;
#endif

// The kernel's arguments, which on AMD GPUs need not stay in scalar registers.
__device__ __forceinline__ const SampleArgs& anew(const SampleArgs& args) {
#if defined(__AMDGCN__)
  return read_again(args);
#else
  return args;
#endif
}

// What all threads have alike, as each one's own: AMD GPUs have no scalar registers for it, let alone for the keys of ten rounds of philox.
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
__device__ __forceinline__ SampleCut own_cut(const SampleCut& from) {
  return {own(from.most), anew(from.first), anew(from.last), own(from.count), own(from.mass), own(from.total)};
}

__device__ __forceinline__ SampleWorkspace sample_workspace(const SampleArgs& a) {
  const long long items = a.rows * a.chunks;
  SampleWorkspace w;
  w.chunks = reinterpret_cast<SampleChunk*>(a.workspace);
  w.cuts = reinterpret_cast<SampleCut*>(w.chunks + items);
  w.bins = reinterpret_cast<SampleBins*>(w.cuts + a.rows);
  w.lists = reinterpret_cast<SampleListed*>(w.bins + items);
  return w;
}

// NaN as minus infinity, plus infinity as the largest number.
__device__ __forceinline__ float clean_logit(float x) { return x != x ? kNoToken : x > kMostLogit ? kMostLogit : x; }

// -log(-log(1 - t))
__device__ __forceinline__ float gumbel_of(unsigned word) {
  constexpr float kLog2 = 0x1.62E430p-1f;
  const float t = share_of_word(word);
  const float e = t < kSmallShare ? small_exponential(t) : __fmul_rn(-kLog2, log2_approx(__fadd_rn(1.0f, -t)));
  return __fmul_rn(-kLog2, log2_approx(e));
}
__device__ __forceinline__ float scaled_difference(float x, float most, float inverse) {
  return __fmul_rn(__fadd_rn(x, -most), inverse);
}
// What a token races with.
__device__ __forceinline__ TokenKey race_key(float d, unsigned word, long long id) {
  return token_key(__fadd_rn(d, gumbel_of(word)), id);
}

// The bin of a logit, counted from all: eighths of an octave of its exponential. Beyond what floats tell apart all is one.
__device__ __forceinline__ float octave_place(float y) {
  constexpr float kMost = 0x1p23f;
  return y < -kMost ? -kMost : y > kMost ? kMost : y;
}
__device__ __forceinline__ int octave_eighth(float x, float inverse) {
  const float y = octave_place(__fmul_rn(x, __fmul_rn(inverse, 8 * kLog2E)));
  const int whole = static_cast<int>(y);
  return static_cast<float>(whole) > y ? whole - 1 : whole;
}
__device__ __forceinline__ int bin_of(float x, int top, float inverse) {
  const int bin = top - octave_eighth(x, inverse);
  return bin < kSelectBins ? bin : kSelectBins - 1;
}
// Which tokens are in better bins than those of the cut, and which in these: as bin_of() tells, by comparing a logit's place.
struct CutEdges {
  float factor, better, worst;

  __device__ __forceinline__ CutEdges(const SampleCut& cut, float inverse) : factor(__fmul_rn(inverse, 8 * kLog2E)) {
    constexpr int kAll = kSelectBins;
    const int top = octave_eighth(cut.most, inverse);
    better = cut.first < kAll ? static_cast<float>(top - cut.first + 1) : kNoToken;
    worst = cut.last < kAll - 1 ? static_cast<float>(top - cut.last) : kNoToken;
  }
  __device__ __forceinline__ float place(float x) const { return octave_place(__fmul_rn(x, factor)); }
  __device__ __forceinline__ bool is_better(float x) const { return place(x) >= better; }
  __device__ __forceinline__ bool is_at_cut(float x) const { return place(x) >= worst && place(x) < better; }
};
// Exponentials of a chunk's bin in units of this share of the largest of the bin.
inline constexpr float kBinUnit = 0x1p18f;
__device__ __forceinline__ unsigned bin_mass(float x, float most, float inverse, int bin) {
  const float d = __fmul_rn(scaled_difference(x, most, inverse), kLog2E);
  const float share = exp2_approx(__fmaf_rn(static_cast<float>(bin), 0.125f, d));
  return static_cast<unsigned>(__fmaf_rn(share < 1.25f ? share : 1.25f, kBinUnit, 0.5f));
}
__device__ __forceinline__ unsigned long long token_mass(float x, float most, float inverse) {
  return whole_mass(exp2_approx(__fmul_rn(scaled_difference(x, most, inverse), kLog2E)));
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

// One thread's part of a chunk: two pieces of 8 logits.
template <SampleConfig kConfig>
struct ChunkPart {
  static constexpr int kPieces = 2;
  const SampleArgs& args;
  const char* row;
  long long start;  // of the chunk
  Piece p[kPieces];

  __device__ __forceinline__ long long id(int j, int i) const {
    return start + (j * kSelectThreads + anew(static_cast<int>(threadIdx.x))) * kRowPiece + i;
  }
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const long long left = args.vocabulary - id(j, 0);
      const int count = left < 0 ? 0 : left < kRowPiece ? static_cast<int>(left) : kRowPiece;
      load_piece<kConfig.x>(row, args.x, id(j, 0), count, p[j]);
      for_elements([&](int i) { p[j].v[i] = i < count ? clean_logit(p[j].v[i]) : kNoToken; });
    }
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
  // The best of the race among tokens of which takes(logit) holds; 0 = none.
  template <class Takes>
  __device__ __forceinline__ TokenKey race(const SampleRule& rule, float most, Takes&& takes) const {
    TokenKey best = 0;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
#pragma unroll 1
      for (int q = 0; q < kRowPiece; q += 4) {
        float x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = q == 0 ? p[j].v[i] : p[j].v[4 + i];
        unsigned taken = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) taken |= x[i] != kNoToken && takes(x[i]) ? 1u << i : 0;
        if (taken == 0) continue;
        const long long first = id(j, q);
        const PhiloxWords words = philox(rule.seed, rule.offset, static_cast<unsigned>(first >> 2));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const TokenKey key = race_key(scaled_difference(x[i], most, rule.inverse), words.word[i], first + i);
          best = (taken >> i & 1) != 0 && key > best ? key : best;
        }
      }
    }
    return best;
  }
};

template <SampleConfig kConfig>
__device__ __forceinline__ const char* logits_of(const SampleArgs& args, long long row) {
  const int bits = kConfig.x == DType::kNone ? dtype_bits(args.x) : dtype_bits(kConfig.x);
  return static_cast<const char*>(args.logits) + row * args.stride * bits / 8;
}
template <SampleConfig kConfig>
__device__ __forceinline__ float logit_at(const SampleArgs& args, const char* row, long long id) {
  Piece one;
  load_piece<kConfig.x>(row, args.x, id, 1, one);
  return clean_logit(one.v[0]);
}

}  // namespace tilewright
