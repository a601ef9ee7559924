// SPDX-License-Identifier: MIT
// A and B of gemv_amd on their way from memory to registers, as chunks of 16 bytes along K (tile/amd/fragment.hpp). What
// lies outside of the matrix, or behind the end of a part of K, becomes zero.
#pragma once

#include "gemm/amd/gemv_amd_args.hpp"
#include "tile/amd/transpose.hpp"
#if defined(__GFX9__)
#include "tile/cdna/matrix_step.hpp"
#else
#include "tile/rdna/matrix_step.hpp"
#endif

namespace tilewright {

// What a step of a wave is made of: kDepth matrix steps, of which a lane holds kChunks chunks of each row.
template <GemvAmdConfig kConfig>
struct GemvAmdStep {
  using Matrix = MatrixStep<kConfig.dtype, 16>;
  static constexpr GemvAmdShape kShape = gemv_amd_shape(kConfig);
  static constexpr int kSize = kShape.size, kChunks = Matrix::kChunks, kDepth = kConfig.tile_k / Matrix::kDepth;
  static_assert(kDepth > 0 && Matrix::kWave == kConfig.wave && kConfig.tile_k % Matrix::kDepth == 0);

  // The place along K of a lane's chunk c of matrix step i.
  __device__ __forceinline__ static int chunk(int lane, int i, int c) {
    return (i * Matrix::kGroups + lane / 16 % Matrix::kGroups) * kChunks + c;
  }
};

// Of `left`, bytes of K from a step's first on: at most a step's, so that no lane compares 64 bits.
__device__ __forceinline__ bool is_there(int byte, int left) { return byte < left; }

// Rows of A, all of them in one part of 2 GiB.
template <GemvAmdConfig kConfig>
struct GemvAmdTokens {
  using Step = GemvAmdStep<kConfig>;
  static constexpr int kM = kConfig.tile_m / 16, kSize = Step::kSize;
  static constexpr bool kWhole = kConfig.a_copy == 16;
  // Elements, a register each, are put together where they are multiplied: before, that would wait for their loads. RDNA's lanes
  // hold too many for that.
  static constexpr bool kApart = !kWhole && kConfig.wave == 64;
  static constexpr int kPieces = kWhole ? 1 : 16 / kSize;
  struct Data {
    Words4 chunk[kApart ? 1 : Step::kDepth][kM][Step::kChunks];
    unsigned element[kApart ? Step::kDepth : 1][kM][Step::kChunks][kPieces];
  };

  const char* base;
  int stride_k, lane;  // stride in bytes
  unsigned rows[kM];

  __device__ __forceinline__ GemvAmdTokens(const GemmArgs& g, int64 batch, int lane)
      : base(static_cast<const char*>(g.a) + batch * g.stride_a_batch * kSize),
        stride_k(static_cast<int>(g.stride_a_k) * kSize),
        lane(lane) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const int row = i * 16 + lane % 16;
      rows[i] = row < g.m ? static_cast<unsigned>(row * static_cast<int>(g.stride_a_m)) * kSize : kOutside;
    }
  }
  __device__ __forceinline__ void fetch(Data& to, int64 k, int left) const {
    const char* at = base + (kWhole ? k * kSize : k * stride_k);
#pragma unroll
    for (int i = 0; i < Step::kDepth; ++i) {
#pragma unroll
      for (int c = 0; c < Step::kChunks; ++c) {
        const int byte = Step::chunk(lane, i, c) * 16;
#pragma unroll
        for (int j = 0; j < kM; ++j) {
          if constexpr (kWhole) {
            to.chunk[i][j][c] =
                load_words4(at, is_there(byte, left) ? rows[j] + static_cast<unsigned>(byte) : kOutside);
          } else if constexpr (kApart) {
            fetch_singly(at, rows[j], byte, left, to.element[i][j][c]);
          } else {
            typename UnsignedOf<kSize>::Type element[kPieces];
            fetch_singly(at, rows[j], byte, left, element);
            __builtin_memcpy(&to.chunk[i][j][c], element, 16);
          }
        }
      }
    }
  }
  // Offsets are counted up each time: one for each element would stay in registers through the loop.
  template <class Element>
  __device__ __forceinline__ void fetch_singly(const char* at, unsigned row, int byte, int left,
                                               Element (&to)[kPieces]) const {
    const int first = static_cast<int>(row) + byte / kSize * stride_k, rest = left - byte;
    auto offset = static_cast<unsigned>(kApart ? anew(first) : first);
    const int there = row == kOutside ? 0 : kApart ? anew(rest) : rest;
#pragma unroll
    for (int e = 0; e < kPieces; ++e) {
      typename UnsignedOf<kSize>::Type element;
      load_element(at, is_there(e * kSize, there) ? offset : kOutside, element);
      to[e] = element;
      offset += static_cast<unsigned>(stride_k);
    }
  }
  // The chunks of matrix step i, of row block m.
  __device__ __forceinline__ static void chunks(const Data& from, int i, int m, Words4 (&to)[Step::kChunks]) {
#pragma unroll
    for (int c = 0; c < Step::kChunks; ++c) {
      if constexpr (kApart) {
        to[c] = together(from.element[i][m][c]);
      } else {
        to[c] = from.chunk[i][m][c];
      }
    }
  }
  __device__ __forceinline__ static Words4 together(const unsigned (&element)[kPieces]) {
    Words4 words = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < kPieces; ++e) words[e * 4 / kPieces] |= element[e] << (8 * kSize * (e % (kPieces / 4)));
    return words;
  }
};

// The column of B that is column i of a group's.
template <GemvAmdConfig kConfig>
struct GemvAmdColumns {
  static constexpr int kTileN = 16 * kConfig.blocks_n;
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;

  int64 first;
  int there;  // of gate or up, where they are apart
  int to_up;  // what a column of up lies further from the group's first than its place in the group says

  __device__ __forceinline__ GemvAmdColumns(const GemmArgs& g, unsigned group) {
    const int64 half = g.n / 2, all = kSeparated ? half : g.n;
    constexpr int kEach = kSeparated ? kTileN / 2 : kTileN;
    first = int64{group} * kEach;
    there = all - first < kEach ? static_cast<int>(all - first) : kEach;
    to_up = kSeparated ? static_cast<int>(half) - kEach : 0;
  }
  // Less `first`; -1 where there is none.
  __device__ __forceinline__ int of(int i) const {
    if (!kSeparated) return i < there ? i : -1;
    const bool up = i >= kTileN / 2;
    return (up ? i - kTileN / 2 : i) < there ? (up ? i + to_up : i) : -1;
  }
};

// Weights with K contiguous: they are chunks.
template <GemvAmdConfig kConfig>
struct GemvAmdRowWeights {
  using Step = GemvAmdStep<kConfig>;
  static constexpr int kN = kConfig.blocks_n, kSize = Step::kSize;
  struct Data {
    Words4 chunk[Step::kDepth][kN][Step::kChunks];
  };

  const char* base;
  int lane;
  unsigned rows[kN];

  __device__ __forceinline__ GemvAmdRowWeights(const GemmArgs& g, int64 batch, unsigned group, int lane) : lane(lane) {
    const GemvAmdColumns<kConfig> columns(g, group);
    base = static_cast<const char*>(g.b) + (batch * g.stride_b_batch + columns.first * g.stride_b_n) * kSize;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const int column = columns.of(j * 16 + lane % 16);
      rows[j] = column < 0 ? kOutside : static_cast<unsigned>(column) * static_cast<unsigned>(g.stride_b_n) * kSize;
    }
  }
  // Columns of the group that sum `row` of block j belongs to.
  __device__ __forceinline__ static constexpr int column(int j, int row) { return j * 16 + row; }

  __device__ __forceinline__ void fetch(Data& to, int64 k, int left) const {
    const char* at = base + k * kSize;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int i = 0; i < Step::kDepth; ++i) {
#pragma unroll
        for (int c = 0; c < Step::kChunks; ++c) {
          const int byte = Step::chunk(lane, i, c) * 16;
          to.chunk[i][j][c] = load_words4(at, is_there(byte, left) ? rows[j] + static_cast<unsigned>(byte) : kOutside);
        }
      }
    }
  }
  // The chunks of matrix step i.
  __device__ __forceinline__ static void chunks(const Data& from, int i, Words4 (&to)[kN][Step::kChunks]) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int c = 0; c < Step::kChunks; ++c) to[j][c] = from.chunk[i][j][c];
    }
  }
};

// Weights with N contiguous, or packed: a lane reads kN neighbours along N of as many rows of K as make a chunk, and turns
// them. A row of packed weights is a line: what it holds of a column is one piece of the chunk, whatever its elements.
template <GemvAmdConfig kConfig>
struct GemvAmdColumnWeights {
  using Step = GemvAmdStep<kConfig>;
  static constexpr GemvAmdShape kShape = gemv_amd_shape(kConfig);
  static constexpr bool kPacked = kConfig.weights == GemvAmdWeights::kPacked;
  static constexpr int kN = kConfig.blocks_n, kUnit = kShape.unit, kWords = kShape.piece_bytes / 4;
  using Turn = Transpose<kUnit>;
  static constexpr int kRows = Turn::kDepth;  // of K in a chunk
  struct Data {
    unsigned words[Step::kDepth][Step::kChunks][kRows][kWords];
  };

  const char* base;
  int stride;      // from row to row, bytes
  int own_byte;    // of K, where the lane's rows begin
  unsigned first;  // the lane's columns of its first row

  __device__ __forceinline__ GemvAmdColumnWeights(const GemmArgs& g, int64 batch, unsigned group, int lane) {
    const GemvAmdColumns<kConfig> columns(g, group);
    const int column = columns.of(lane % 16 * kN);
    if constexpr (kPacked) {
      // A group begins where a panel does.
      const auto panel_bytes = static_cast<unsigned>(packed_panel_bytes(kConfig.dtype, g.k));
      base = static_cast<const char*>(g.b) + batch * g.stride_b_batch + columns.first / kPanelColumns * panel_bytes;
      stride = static_cast<int>(packed_line_bytes(kConfig.dtype));
      const auto at = static_cast<unsigned>(column);
      first = column < 0 ? kOutside : at / kPanelColumns * panel_bytes + at % kPanelColumns * kUnit;
    } else {
      base = static_cast<const char*>(g.b) + (batch * g.stride_b_batch + columns.first) * kUnit;
      stride = static_cast<int>(g.stride_b_k) * kUnit;
      first = column < 0 ? kOutside : static_cast<unsigned>(column) * kUnit;
    }
    const int row = Step::chunk(lane, 0, 0) * kRows;
    own_byte = row * kUnit;
    if (column >= 0) first += static_cast<unsigned>(row * stride);
  }
  __device__ __forceinline__ static constexpr int column(int j, int row) { return row * kN + j; }

  __device__ __forceinline__ void fetch(Data& to, int64 k, int left) const {
    const char* at = base + k * Step::kSize / kUnit * stride;
#pragma unroll
    for (int i = 0; i < Step::kDepth; ++i) {
#pragma unroll
      for (int c = 0; c < Step::kChunks; ++c) {
        const int row = Step::chunk(0, i, c) * kRows;
#pragma unroll
        for (int e = 0; e < kRows; ++e) {
          const bool there = is_there(own_byte, left - (row + e) * kUnit);
          VectorOf<unsigned, kWords> piece;
          load_piece(at, there ? first : kOutside, (row + e) * stride, piece);
          __builtin_memcpy(to.words[i][c][e], &piece, sizeof(piece));
        }
      }
    }
  }
  __device__ __forceinline__ static void chunks(const Data& from, int i, Words4 (&to)[kN][Step::kChunks]) {
#pragma unroll
    for (int c = 0; c < Step::kChunks; ++c) {
#pragma unroll
      for (int quad = 0; quad < kN / 4; ++quad) {
        typename Turn::Row rows[kRows];
#pragma unroll
        for (int e = 0; e < kRows; ++e) __builtin_memcpy(&rows[e], &from.words[i][c][e][quad * kUnit], 4 * kUnit);
        Words4 turned[4];
        Turn::run(rows, turned);
#pragma unroll
        for (int j = 0; j < 4; ++j) to[4 * quad + j][c] = turned[j];
      }
    }
  }

 private:
  __device__ __forceinline__ static void load_piece(const char* at, unsigned offset, int row,
                                                    VectorOf<unsigned, 1>& piece) {
    piece[0] = load_word(at, offset, row);
  }
  __device__ __forceinline__ static void load_piece(const char* at, unsigned offset, int row, Words2& piece) {
    piece = load_words2(at, offset, row);
  }
  __device__ __forceinline__ static void load_piece(const char* at, unsigned offset, int row, Words4& piece) {
    piece = load_words4(at, offset, row);
  }
};

template <GemvAmdConfig kConfig, GemvAmdWeights kWeights>
struct GemvAmdWeightsOf {
  using Type = GemvAmdColumnWeights<kConfig>;
};
template <GemvAmdConfig kConfig>
struct GemvAmdWeightsOf<kConfig, GemvAmdWeights::kRows> {
  using Type = GemvAmdRowWeights<kConfig>;
};

}  // namespace tilewright
