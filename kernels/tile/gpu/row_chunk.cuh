// SPDX-License-Identifier: MIT
// Rows that no block keeps in registers as floats: in chunks, each of which is reduced alone. What is found of them is merged in their
// order, whoever takes them: a block all of a row, which it reads twice; a block each of few rows' chunks, in two steps; or on sm_90a the
// blocks of a cluster one or two each, which they keep as they lie, so that a row is read once.
#pragma once

#include "tile/gpu/row_store.cuh"
#if !defined(__AMDGCN__)
#include "tile/portable/pair_math.cuh"
#endif

namespace tilewright {

// Has no exponential.
inline constexpr float kNothing = __builtin_bit_cast(float, 0xFF800000u);

// exp(factor (x - most)), with log2(e) in the factor.
__device__ __forceinline__ float exponential(float x, float most, float factor) {
  return exp2_approx(__fmul_rn(__fadd_rn(x, -most), factor));
}

// One thread's part of a chunk.
template <RowGpuConfig kConfig>
struct RowChunk {
  static constexpr int kPieces = row_chunk_pieces(kConfig.cluster);
  static constexpr int kStep = kConfig.threads * kRowPiece, kSize = kStep * kPieces;
  static constexpr bool kAsks = kConfig.whole && kConfig.x != DType::kNone;  // before it needs them
  static constexpr bool kAsLies = kAsks && kConfig.cluster > 1;              // has no room for floats
  static constexpr bool kAlone = kAsLies && kConfig.pieces == kPieces;       // but for those of one chunk
  static constexpr bool kIsPairs = dtype_bits(kConfig.x) == 16;
  static constexpr unsigned kNothings = !kIsPairs ? 0xFF800000u : kConfig.x == DType::kBf16 ? 0xFF80FF80u : 0xFC00FC00u;
  const GpuRow<kConfig>& row;
  const RowInput<kConfig>& input;
  Piece p[kAsLies ? 1 : kPieces];
  PieceWords<kConfig.x> words[kAsks ? kPieces : 1];
  float own = 0;  // what a reduction remembers of it

  __device__ __forceinline__ static int thread() { return thread_of_row<kConfig.threads>(); }
  // body(n, count, j) for all pieces, with constants as j.
  template <class Body>
  __device__ __forceinline__ void each(int chunk, Body&& body) const {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const long long n = static_cast<long long>(chunk) * kSize + j * kStep + thread() * kRowPiece;
      body(n, row.count_at(n), j);
    }
  }
  // A piece that is not there, or that nobody reads, is the first one's, so that nothing branches.
  __device__ __forceinline__ void ask(int chunk, bool reads = true) {
    if constexpr (kAsks) {
      each(chunk, [&](long long n, int count, int j) {
        words[j].load(input.x + (count > 0 && reads ? n : 0) * dtype_bits(kConfig.x) / 8);
      });
    }
  }
  // prepare(count, piece) comes before all else.
  template <class Prepare>
  __device__ __forceinline__ void take(int chunk, Prepare&& prepare) {
    if constexpr (kAsLies) return;
    each(chunk, [&](long long n, int count, int j) {
      if constexpr (kAsks) {
        words[j].widen(p[j]);
      } else {
        input.added(n, count, p[j], 0);
      }
      prepare(count, p[j]);
    });
  }
  // body(n, count, piece) of what was taken; the same each time.
  template <class Prepare, class Body>
  __device__ __forceinline__ void each_piece(int chunk, Prepare&& prepare, Body&& body) const {
    each(chunk, [&](long long n, int count, int j) {
      Piece of;
      if constexpr (kAsLies) {
        PieceWords<kConfig.x> found = words[j];
        found.renew();
        found.widen(of);
        if (count == 0) for_elements([&](int i) { of.v[i] = 0; });
        prepare(count, of);
      } else {
        of = p[j];
      }
      body(n, count, of);
    });
  }
#if !defined(__AMDGCN__)
  // Elements as they lie that are to be compared and made exponentials of: with a sign, and nothing's where there are none. Then pieces
  // are taken by each_settled(), which asks nothing more of them. Pairs of a chunk that is all there are left alone; of 32 bits, that
  // took more registers than there are.
  __device__ __forceinline__ void settle(int chunk, bool negative) {
    static_assert(kAsLies);
    constexpr unsigned kSigns = kIsPairs ? 0x80008000u : 0x80000000u;
    if constexpr (kIsPairs) {
      if (!negative && (chunk + 1) * kSize <= row.args.n) return;
    }
    const unsigned flips = negative ? kSigns : 0;
    each(chunk, [&](long long, int count, int j) {
      for (Vector4<unsigned>& w : words[j].words) {
        w = {count > 0 ? w.x ^ flips : kNothings, count > 0 ? w.y ^ flips : kNothings,
             count > 0 ? w.z ^ flips : kNothings, count > 0 ? w.w ^ flips : kNothings};
      }
    });
  }
  template <class Body>
  __device__ __forceinline__ void each_settled(int chunk, Body&& body) const {
    each(chunk, [&](long long n, int count, int j) {
      PieceWords<kConfig.x> found = words[j];
      found.renew();
      Piece of;
      found.widen(of);
      body(n, count, of, j);
    });
  }
  __device__ __forceinline__ float largest_settled(int chunk) const {
    float largest = kLeastValue;
    if constexpr (kIsPairs) {
      unsigned most = kNothings;
#pragma unroll
      for (const PieceWords<kConfig.x>& piece : words) {
        const Vector4<unsigned>& w = piece.words[0];
        most = larger_pairs<kConfig.x>(larger_pairs<kConfig.x>(w.x, w.y), most);
        most = larger_pairs<kConfig.x>(larger_pairs<kConfig.x>(w.z, w.w), most);
      }
      constexpr bool kIsBf16 = kConfig.x == DType::kBf16;
      largest = at_least(widen_16(kIsBf16, static_cast<unsigned short>(most)), largest);
      return at_least(widen_16(kIsBf16, static_cast<unsigned short>(most >> 16)), largest);
    }
    each_settled(chunk, [&](long long, int, const Piece& p, int) {
      for_elements([&](int i) { largest = at_least(p.v[i], largest); });
    });
    return largest;
  }
#endif
  __device__ __forceinline__ void store_one(long long n, int count, const Piece& of) const {
    const RowArgs& args = row.args;
    const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
    char* const to = row_start<kConfig.out>(args.out, row.at);
    if constexpr (kConfig.cluster > 1) return store_together<kConfig.out, kConfig.whole>(to, out, n, count, of);
    store_piece<kConfig.out, kConfig.whole>(to, out, n, count, of);  // lacks registers to swap halves
  }
  // Of all threads of the block, in each of them.
  template <class Merge>
  __device__ __forceinline__ static float reduce(float x, Merge&& merge) {
    float one[1] = {x};
    reduce_threads<kConfig.threads>(one, merge);
    return one[0];
  }
};

// A Reduction, made of a row: prepare(count, piece), find(part, chunk), which the chunk's first thread knows all of, merge(a, b), of a
// cluster's chunks merge_all<count>(at), finish(all, first) in all blocks of a row, of which one is the first, and where stores()
// store(part, chunk). Where not reads() the output does not depend on the row.

// Rows that are read twice. `part_count` chunks of each have a block each, in two steps, where there are too few rows for all blocks.
template <RowGpuConfig kConfig, class Reduction>
__device__ __forceinline__ void reduce_chunks(const RowArgs& given) {
  constexpr int kRows = GpuRow<kConfig>::kRows;
  using Found = typename Reduction::Found;
  static_assert(kConfig.cluster == 1);
  RowCluster<1> alone;
  const bool split = given.part_count > 0;
  if (split || has_edge(kConfig)) take_over_from_previous_kernel();
  const long long each = split ? given.part_count : 1, items = given.rows * each;
#pragma unroll 1
  for (long long first = static_cast<long long>(blockIdx.x) * kRows; first < items; first += given.grid * kRows) {
    const RowArgs& args = anew(given);
    const long long mine = first + row_of_block<kConfig.threads>(), item = mine < items ? mine : items - 1;
    const long long index = item / each;
    const int chunk = static_cast<int>(item - index * each);
    GpuRow<kConfig> row{args, index, row_index(args, index), mine < items, row_thread<kConfig>(), alone, {}};
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

// Rows that the blocks of a cluster keep in registers, one chunk or two each.
template <RowGpuConfig kConfig, class Reduction>
__device__ __forceinline__ void reduce_clusters(const RowArgs& args) {
  constexpr int kChunks = kConfig.pieces / RowChunk<kConfig>::kPieces;
  static_assert(kChunks == 1 || kChunks == 2);
  struct alignas(16) Found {
    typename Reduction::Found chunk[kChunks];
  };
  for_rows<kConfig>(args, [&](GpuRow<kConfig>& row) {
    RowInput<kConfig> input(args);
    input.start(row);
    Reduction of(row);
    const int first = row.cluster.rank() * kChunks;
    RowChunk<kConfig> part[2] = {{row, input, {}, {}}, {row, input, {}, {}}};
    Found mine;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) part[c].ask(first + c, of.reads());
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      part[c].take(first + c, [&](int count, Piece& p) { of.prepare(count, p); });
      mine.chunk[c] = of.find(part[c], first + c);
    }
    const Found* const found = row.cluster.exchange(mine);
    const auto chunk = [&](int c) -> const typename Reduction::Found& { return found[c / kChunks].chunk[c % kChunks]; };
    of.finish(of.template merge_all<kConfig.cluster * kChunks>(chunk), first == 0);
    if (!of.stores()) return;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) of.store(part[c], first + c);
  });
}

}  // namespace tilewright
