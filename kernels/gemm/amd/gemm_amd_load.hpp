// SPDX-License-Identifier: MIT
// A or B of gemm_amd on its way from global memory through registers to LDS, one tile of K at a time: fetch() asks for it,
// store() waits and writes. What lies outside of the matrix becomes zero.
#pragma once

#include "gemm/amd/gemm_amd_args.hpp"
#include "tile/amd/lds_tile.hpp"
#include "tile/amd/transpose.hpp"
#if defined(__gfx950__)
#include "tile/cdna/direct_lds.hpp"
#endif

namespace tilewright {

// Where an operand's tile lies: rows are of M or N. Two parts: gate and up, a half of the tile's rows each.
struct AmdSource {
  const char *gate, *up;       // the first row, the first column of K; the same for all lanes
  int64 stride_row, stride_k;  // bytes
  int rows;                    // of a part that are there
  int up_column = 0;           // packed weights: of its panel, where up begins

  __device__ __forceinline__ const char* of(bool second) const { return second ? up : gate; }
};

// Rows of K are contiguous: chunks of 16 bytes along K.
template <class Tile, int kRows, int kParts, int kSize, int kThreads>
struct AmdRowsAlongK {
  static constexpr int kPass = kThreads / Tile::kChunks, kCount = kRows / kPass;
  static_assert(kRows % kPass == 0);

  const AmdSource& source;
  unsigned offsets[kCount], chunk, row;
  Words4 data[kCount];

  __device__ __forceinline__ AmdRowsAlongK(const AmdSource& from, int thread)
      : source(from), chunk(thread % Tile::kChunks), row(thread / Tile::kChunks) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int in_part = (i * kPass + static_cast<int>(row)) % (kRows / kParts);
      offsets[i] = in_part < from.rows ? static_cast<unsigned>(in_part * static_cast<int>(from.stride_row)) + chunk * 16
                                       : kOutside;
    }
  }
  // `left`: elements of K from k on.
  __device__ __forceinline__ void fetch(int64 k, int64 left) {
    const bool there = static_cast<int64>(chunk) * (16 / kSize) < left;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const char* base = source.of(i * kPass >= kRows / kParts) + k * kSize;
      data[i] = load_words4(base, there ? offsets[i] : kOutside);
    }
  }
  __device__ __forceinline__ void store(Lds lds, unsigned tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) write_lds(lds, tile + Tile::offset(i * kPass + row, chunk), data[i]);
  }
};

// Rows of M or N are contiguous: four neighbours at a time, as many rows of K as a chunk has, transposed on the way.
template <class Tile, int kRows, int kParts, int kSize, int kThreads>
struct AmdRowsAlongMn {
  using Turn = Transpose<kSize>;
  static constexpr int kGroups = kRows / 4, kAcross = kGroups < kThreads ? kGroups : kThreads;
  static constexpr int kDown = kThreads / kAcross, kCount = kGroups * Tile::kChunks / kThreads;
  static_assert(kGroups * Tile::kChunks % kThreads == 0 && kAcross == kGroups);

  const AmdSource& source;
  unsigned group, chunk;
  unsigned offset;  // of the group's row 0 of K
  bool up;
  typename Turn::Row data[kCount][Turn::kDepth];

  __device__ __forceinline__ AmdRowsAlongMn(const AmdSource& from, int thread)
      : source(from), group(thread % kAcross), chunk(thread / kAcross) {
    const int row = static_cast<int>(group) * 4, in_part = row % (kRows / kParts);
    up = row >= kRows / kParts;
    offset = in_part < from.rows ? static_cast<unsigned>(in_part * kSize) : kOutside;
  }
  __device__ __forceinline__ void fetch(int64 k, int64 left) {
    const int stride = static_cast<int>(source.stride_k);
    // Lanes of one instruction may be of either part: what is the same for all is the gate's address.
    const auto apart = kParts == 1 ? 0u : static_cast<unsigned>(source.up - source.gate);
    const char* base = source.gate + k * source.stride_k;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int first = (static_cast<int>(chunk) + i * kDown) * Turn::kDepth;
#pragma unroll
      for (int j = 0; j < Turn::kDepth; ++j) {
        const unsigned at = offset + static_cast<unsigned>((first + j) * stride) + (up ? apart : 0u);
        load_row(base, offset != kOutside && first + j < left ? at : kOutside, data[i][j]);
      }
    }
  }
  __device__ __forceinline__ void store(Lds lds, unsigned tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Words4 chunks[4];
      Turn::run(data[i], chunks);
#pragma unroll
      for (int j = 0; j < 4; ++j) write_lds(lds, tile + Tile::offset(group * 4 + j, chunk + i * kDown), chunks[j]);
    }
  }
};

// Packed weights: four columns of a panel, as many lines as a chunk has. kUnit: bytes of a column in a line.
template <class Tile, int kRows, int kParts, int kSize, int kUnit, int kThreads>
struct AmdRowsPacked : AmdRowsAlongMn<Tile, kRows, kParts, kUnit, kThreads> {
  using Base = AmdRowsAlongMn<Tile, kRows, kParts, kUnit, kThreads>;

  __device__ __forceinline__ AmdRowsPacked(const AmdSource& from, int thread) : Base(from, thread) {
    const unsigned column = this->offset / kUnit + (this->up ? static_cast<unsigned>(from.up_column) : 0u);
    const auto panel = static_cast<unsigned>(from.stride_row);
    if (this->offset != kOutside) this->offset = column / kPanelColumns * panel + column % kPanelColumns * kUnit;
  }
  __device__ __forceinline__ void fetch(int64 k, int64 left) {
    Base::fetch(k * kSize / kUnit, (left * kSize + kUnit - 1) / kUnit);
  }
};

// Any strides and alignments: a chunk element by element. kAlongMn: neighbouring lanes along M or N.
template <class Tile, int kRows, int kParts, int kSize, int kThreads, bool kAlongMn>
struct AmdGather {
  using Element = typename UnsignedOf<kSize>::Type;
  static constexpr int kCount = kRows * Tile::kChunks / kThreads, kDepth = 16 / kSize;

  const AmdSource& source;
  unsigned first;
  Words4 data[kCount];

  __device__ __forceinline__ AmdGather(const AmdSource& from, int thread) : source(from), first(thread) {}
  __device__ __forceinline__ static unsigned row_of(unsigned piece) {
    return kAlongMn ? piece % kRows : piece / Tile::kChunks;
  }
  __device__ __forceinline__ static unsigned chunk_of(unsigned piece) {
    return kAlongMn ? piece / kRows : piece % Tile::kChunks;
  }
  __device__ __forceinline__ void fetch(int64 k, int64 left) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const unsigned piece = first + i * kThreads;
      const int row = static_cast<int>(row_of(piece)), in_part = row % (kRows / kParts);
      const int from_k = static_cast<int>(chunk_of(piece)) * kDepth;
      const char* at = source.of(row >= kRows / kParts) + in_part * source.stride_row + (k + from_k) * source.stride_k;
      union {
        Element elements[kDepth];
        Words4 words;
      } chunk;
#pragma unroll
      for (int j = 0; j < kDepth; ++j) {
        const bool there = in_part < source.rows && from_k + j < left;
        chunk.elements[j] = there ? *reinterpret_cast<const Element*>(at + j * source.stride_k) : Element{0};
      }
      data[i] = chunk.words;
    }
  }
  __device__ __forceinline__ void store(Lds lds, unsigned tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const unsigned piece = first + i * kThreads;
      write_lds(lds, tile + Tile::offset(row_of(piece), chunk_of(piece)), data[i]);
    }
  }
};

#if defined(__gfx950__)
// The first of them without a register: fetch() is all there is, and a wait for copies comes before the tile is read. An
// instruction of the wave fills 1 KiB; which chunk a lane brings follows from where it will lie.
template <class Tile, int kRows, int kParts, int kSize, int kThreads>
struct AmdStraightToLds {
  static constexpr int kWaves = kThreads / 64, kCount = Tile::kBytes / 1024 / kWaves;
  static_assert(Tile::kBytes % (1024 * kWaves) == 0 && kRows / kParts % (64 / Tile::kChunks) == 0);

  const AmdSource& source;
  int wave, lane;
  unsigned offsets[kCount];

  __device__ __forceinline__ AmdStraightToLds(const AmdSource& from, int thread)
      : source(from), wave(__builtin_amdgcn_readfirstlane(thread / 64)), lane(thread % 64) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int in_part = static_cast<int>(row_of(i)) % (kRows / kParts);
      const auto offset = static_cast<unsigned>(in_part * static_cast<int>(source.stride_row)) + chunk_of(i) * 16;
      offsets[i] = in_part < source.rows ? offset : kOutside;
    }
  }
  // Waves take turns: all of a wave's instructions bring chunks of few columns.
  __device__ __forceinline__ unsigned first(int i) const { return static_cast<unsigned>(i * kWaves + wave) * 64; }
  // A row's place is that of the row which is at its own.
  __device__ __forceinline__ unsigned row_of(int i) const {
    return Tile::place((first(i) + static_cast<unsigned>(lane)) / Tile::kChunks);
  }
  __device__ __forceinline__ unsigned chunk_of(int i) const {
    return static_cast<unsigned>(lane) % Tile::kChunks ^ Tile::phase(row_of(i));
  }

  // From here on K has `left` elements, fewer than a tile.
  __device__ __forceinline__ void cut(int64 left) {
    const int there = left > 0 ? static_cast<int>(left) : 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (static_cast<int>(chunk_of(i)) * (16 / kSize) >= there) offsets[i] = kOutside;
    }
  }
  __device__ __forceinline__ void fetch(int64 k, Lds lds, unsigned tile) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool up = first(i) / Tile::kChunks >= kRows / kParts;
      copy_to_lds(source.of(up) + k * kSize, offsets[i], lds + tile + first(i) * 16);
    }
  }
};
#endif

template <class Tile, int kRows, int kParts, int kSize, int kThreads, Major kMajor, int kCopy>
struct AmdLoader {
  using Type = AmdGather<Tile, kRows, kParts, kSize, kThreads, kMajor == Major::kMn>;
};
template <class Tile, int kRows, int kParts, int kSize, int kThreads>
struct AmdLoader<Tile, kRows, kParts, kSize, kThreads, Major::kK, 16> {
  using Type = AmdRowsAlongK<Tile, kRows, kParts, kSize, kThreads>;
};
template <class Tile, int kRows, int kParts, int kSize, int kThreads>
struct AmdLoader<Tile, kRows, kParts, kSize, kThreads, Major::kMn, 16> {
  using Type = AmdRowsAlongMn<Tile, kRows, kParts, kSize, kThreads>;
};

template <GemmAmdConfig kConfig, class Tile, int kParts, bool kPacked = kConfig.b_packed>
struct AmdWeightLoader {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  using Type = typename AmdLoader<Tile, kConfig.tile_n, kParts, kShape.b_size, kShape.threads, kConfig.b_major,
                                  kConfig.b_copy>::Type;
};
template <GemmAmdConfig kConfig, class Tile, int kParts>
struct AmdWeightLoader<kConfig, Tile, kParts, true> {
  static constexpr GemmAmdShape kShape = gemm_amd_shape(kConfig);
  static constexpr int kUnit = static_cast<int>(packed_line_bytes(kConfig.b_dtype)) / kPanelColumns;
  using Type = AmdRowsPacked<Tile, kConfig.tile_n, kParts, kShape.b_size, kUnit, kShape.threads>;
};

}  // namespace tilewright
