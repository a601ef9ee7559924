// SPDX-License-Identifier: MIT
// Rows that no block keeps in registers: read twice, in chunks that registers hold. What each chunk is reduced to is merged in the order of
// chunks, whether one block takes a row or many do.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

// Has no exponential.
inline constexpr float kNothing = __builtin_bit_cast(float, 0xFF800000u);

// exp(factor (x - most)), with log2(e) in the factor.
__device__ __forceinline__ float exponential(float x, float most, float factor) {
  return exp2_approx(__fmul_rn(__fadd_rn(x, -most), factor));
}

inline constexpr int kChunkPieces = 2;  // of a thread

// One thread's part of a chunk.
template <RowGpuConfig kConfig>
struct RowChunk {
  static constexpr int kSize = GpuRow<kConfig>::kStep * kChunkPieces;
  static constexpr bool kAhead =
      kConfig.whole && kConfig.x != DType::kNone;  // the next chunk is asked for before it is needed
  const GpuRow<kConfig>& row;
  const RowInput<kConfig>& input;
  Piece p[kChunkPieces];
  PieceWords<kConfig.x> words[kAhead ? kChunkPieces : 1];

  // body(n, count, piece), with constants as pieces.
  template <class Body>
  __device__ __forceinline__ void each(int chunk, Body&& body) const {
#pragma unroll
    for (int j = 0; j < kChunkPieces; ++j) {
      const long long n =
          static_cast<long long>(chunk) * kSize + j * GpuRow<kConfig>::kStep + anew(row.thread) * kRowPiece;
      body(n, row.count_at(n), j);
    }
  }
  // A piece that is not there is the first one's, so that nothing branches.
  __device__ __forceinline__ void ask(int chunk) {
    if constexpr (kAhead) {
      each(chunk, [&](long long n, int count, int j) {
        words[j].load(input.x + (count > 0 ? n : 0) * dtype_bits(kConfig.x) / 8);
      });
    }
  }
  template <class Prepare>
  __device__ __forceinline__ void take(int chunk, Prepare&& prepare) {
    each(chunk, [&](long long n, int count, int j) {
      if constexpr (kAhead) {
        words[j].widen(p[j]);
      } else {
        input.added(n, count, p[j], 0);
      }
      prepare(count, p[j]);
    });
  }
  // What make(n, count, piece) makes of the pieces.
  template <class Make>
  __device__ __forceinline__ void store(int chunk, Make&& make) {
    const RowArgs& args = row.args;
    const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
    char* const to = row_start<kConfig.out>(args.out, row.at);
    each(chunk, [&](long long n, int count, int j) {
      make(n, count, p[j]);
      store_piece<kConfig.out, kConfig.whole>(to, out, n, count, p[j]);
    });
  }
};

// Rows that are read twice. `part_count` chunks of each have a block each, in two steps, where there are too few rows for all blocks.
// A Reduction, made of a row: prepare(count, piece), find(part, chunk), merge(a, b), finish(all, first) in all blocks of a row, of
// which one is the first, and where stores() store(part, chunk): unseen, where not reads().
template <RowGpuConfig kConfig, class Reduction>
__device__ __forceinline__ void reduce_chunks(const RowArgs& given) {
  constexpr int kRows = GpuRow<kConfig>::kRows;
  using Found = typename Reduction::Found;
  static_assert(kConfig.cluster == 1);
  RowCluster<1> alone;
  const bool split = given.part_count > 0;
  const long long each = split ? given.part_count : 1, items = given.rows * each;
#pragma unroll 1
  for (long long first = static_cast<long long>(blockIdx.x) * kRows; first < items; first += given.grid * kRows) {
    const RowArgs& args = anew(given);
    const long long mine = first + threadIdx.x / kConfig.threads, item = mine < items ? mine : items - 1;
    const long long index = item / each;
    const int chunk = static_cast<int>(item - index * each);
    GpuRow<kConfig> row{args, index, 0, row_index(args, index), mine < items, row_thread<kConfig>(), alone, {}};
    RowInput<kConfig> input(args);
    input.start(row);
    Reduction of(row);
    RowChunk<kConfig> part{row, input, {}, {}};
    auto* const pairs = reinterpret_cast<Found*>(args.parts) + index * each;
    const bool reads = of.reads();
    const auto prepare = [&](int count, Piece& p) { of.prepare(count, p); };

    // What is found of a chunk, for the next step.
    if (args.step == RowStep::kFind) {
      if (!reads) continue;
      part.ask(chunk);
      part.take(chunk, prepare);
      const Found found = of.find(part, chunk);
      if (row.there && row.thread == 0) pairs[chunk] = found;
      continue;
    }

    // Of all chunks, in their order. The last one is asked for again first: its lines were read last.
    const int chunks = static_cast<int>((args.n + part.kSize - 1) / part.kSize);
    Found all = Reduction::kNone;
    if (reads) {
      part.ask(split ? chunk : 0);
#pragma unroll 1
      for (int c = 0; c < chunks; ++c) {
        Found next;
        if (split) {
          next = pairs[c];
        } else {
          part.take(c, prepare);
          part.ask(c + 1 < chunks ? c + 1 : c);
          next = of.find(part, c);
        }
        all = of.merge(all, next);
      }
    }
    of.finish(all, chunk == 0);
    if (!of.stores()) continue;
    const int first_chunk = split ? chunk : 0;
#pragma unroll 1
    for (int c = split ? chunk : chunks - 1; c >= first_chunk; --c) {
      if (reads) {
        part.take(c, prepare);
        if (c > first_chunk) part.ask(c - 1);
      }
      of.store(part, c);
    }
  }
}

}  // namespace tilewright
