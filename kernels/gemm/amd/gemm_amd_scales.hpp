// SPDX-License-Identifier: MIT
// Block scales of gemm_amd on their way to LDS: e8m0, one for 32 of K of a row of A or B, four along K to a word; or f32, one
// for 128 of K of a row of A, or of 128 rows of B. In LDS [rows of A, then of B][tile_k / 128] words; a work-item brings as
// many as any other. What lies outside of the matrix is 0,
// which is 2^-127 and goes with values of zero.
#pragma once

#include "gemm/amd/gemm_amd_args.hpp"
#include "tile/amd/memory.hpp"
#if defined(__gfx950__)
#include "tile/cdna/direct_lds.hpp"
#endif

namespace tilewright {

// One operand's, from the tile's first group on; strides in bytes.
struct AmdScaleSource {
  const char* data;
  int64 stride_row, stride_k;
  int outer, before;  // rows of a group, those of the first one that lie before the tile
  int64 up;           // from the scales of the gate to those of up
  int rows;           // of a part that are there
};

template <GemmAmdConfig kConfig, bool kScaled = kConfig.scale_copy != 0>
struct AmdScales {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  static constexpr int kCount = kShape.scale_bytes / 4 / kShape.threads, kWords = kShape.scale_words;
  static constexpr int kParts = kConfig.gate == GateMode::kSeparated ? 2 : 1;
  struct Sources {
    AmdScaleSource a, b;
  };

  const Sources& sources;
  int wave, lane;
  unsigned offsets[kCount];
  unsigned data[kCount];

  __device__ __forceinline__ AmdScales(const Sources& from, int thread)
      : sources(from), wave(__builtin_amdgcn_readfirstlane(thread / 64)), lane(thread % 64) {
    if constexpr (kConfig.scale_copy == 4) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Place p = place(i);
        const AmdScaleSource& from = source(i);
        const int row = kConfig.scale == DType::kF32 ? (p.row + from.before) / from.outer : p.row;
        const int64 offset = row * from.stride_row + (p.up ? from.up : 0) + p.word * 4;
        offsets[i] = p.there ? static_cast<unsigned>(offset) : kOutside;
      }
    }
  }

  // Words of a wave follow each other, and are of one operand.
  __device__ __forceinline__ int first(int i) const { return (i * kShape.threads / 64 + wave) * 64; }
  __device__ __forceinline__ const AmdScaleSource& source(int i) const {
    return first(i) < kShape.a_scales ? sources.a : sources.b;
  }
  struct Place {
    int row, word;  // the row in its part
    bool up, there;
  };
  __device__ __forceinline__ Place place(int i) const {
    const bool of_b = first(i) >= kShape.a_scales;
    const int at = first(i) + lane - (of_b ? kShape.a_scales : 0), row = at / kWords;
    const int part = kConfig.tile_n / kParts;
    const bool up = kParts == 2 && of_b && row >= part;
    const int in_part = up ? row - part : row;
    const bool inside = !of_b ? row < kConfig.tile_m : row < kConfig.tile_n;
    return {in_part, at % kWords, up, inside && in_part < source(i).rows};
  }

  // `left`: columns of K from k on.
  __device__ __forceinline__ void fetch(int64 k, int64 left) {
    const int64 groups = (left + kAmdScaleDepth - 1) / kAmdScaleDepth;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kConfig.scale_copy == 4) {
        data[i] = load_word(words_at(i, k), offset(i, groups));
      } else {
        const Place p = place(i);
        const AmdScaleSource& from = source(i);
        const char* at = from.data + p.row * from.stride_row + (p.up ? from.up : 0) +
                         (k / kAmdScaleDepth + p.word * 4) * from.stride_k;
        const unsigned none = from.data == nullptr ? 127 : 0;  // an operand without scales: 2^0
        unsigned word = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool there = p.there && p.word * 4 + j < groups;
          const unsigned scale = there ? static_cast<unsigned char>(at[j * from.stride_k]) : none;
          word |= scale << (8 * j);
        }
        data[i] = word;
      }
    }
  }
  __device__ __forceinline__ void store(Lds lds, unsigned to) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      *(TILEWRIGHT_LDS unsigned*)(lds + to + static_cast<unsigned>(first(i) + lane) * 4) = data[i];
    }
  }
#if defined(__gfx950__)
  // Both at once, by copies straight to LDS; where K has fewer than a tile left, cut() comes first.
  __device__ __forceinline__ void cut(int64 left) {
    const int64 groups = (left + kAmdScaleDepth - 1) / kAmdScaleDepth;
#pragma unroll
    for (int i = 0; i < kCount; ++i) offsets[i] = offset(i, groups);
  }
  __device__ __forceinline__ void copy(int64 k, Lds lds, unsigned to) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      copy_to_lds<4>(words_at(i, k), offsets[i], lds + to + static_cast<unsigned>(first(i)) * 4);
    }
  }
#endif

 private:
  __device__ __forceinline__ const char* words_at(int i, int64 k) const {
    if constexpr (kConfig.scale == DType::kF32) return source(i).data + k / kAmdScaleWord * source(i).stride_k;
    return source(i).data + k / kAmdScaleDepth;
  }
  // Words are whole or not there.
  __device__ __forceinline__ unsigned offset(int i, int64 groups) const {
    return (first(i) + lane) % kWords * 4 < groups ? offsets[i] : kOutside;
  }
};

template <GemmAmdConfig kConfig>
struct AmdScales<kConfig, false> {
  struct Sources {};
  static constexpr int kCount = 0;
  __device__ __forceinline__ AmdScales(const Sources&, int) {}
  __device__ __forceinline__ void fetch(int64, int64) const {}
  __device__ __forceinline__ void store(Lds, unsigned) const {}
  __device__ __forceinline__ void cut(int64) const {}
  __device__ __forceinline__ void copy(int64, Lds, unsigned) const {}
};

}  // namespace tilewright
