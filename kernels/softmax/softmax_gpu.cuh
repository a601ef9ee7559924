// SPDX-License-Identifier: MIT
// softmax_gpu: a row is read once and kept in registers, where its exponentials take its place. Longer ones are read twice, in chunks that
// registers hold: each has a largest value and a sum, merged in the order of chunks whether one block takes a row or many do. Typed by
// its config, or at run time.
#pragma once

#include "tile/gpu/row_store.cuh"

namespace tilewright {

// Has no exponential.
inline constexpr float kNothing = __builtin_bit_cast(float, 0xFF800000u);

// exp(factor (x - most)), with log2(e) in the factor.
__device__ __forceinline__ float exponential(float x, float most, float factor) {
  return exp2_approx(__fmul_rn(__fadd_rn(x, -most), factor));
}

// The factor's sign stands before the largest value is sought, its magnitude behind the difference,
// which it never overflows.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void sign_piece(const RowArgs& args, int count, Piece& p) {
  const int there = anew(count);
  const float sign = anew(args).alpha < 0 ? -1.0f : 1.0f;
  for_elements([&](int i) { p.v[i] = is_there<kConfig>(i, there) ? __fmul_rn(p.v[i], sign) : kNothing; });
}
__device__ __forceinline__ float softmax_scale(const RowArgs& args) { return fabsf(anew(args).alpha); }
__device__ __forceinline__ float softmax_factor(const RowArgs& args) {
  return __fmul_rn(softmax_scale(args), 1.44269504f);
}
// What an output is multiplied by, or with the logarithm what is added. The sum of nothing but minus infinities, which is 0, makes NaN
// of all.
__device__ __forceinline__ float softmax_by(const RowArgs& args, float sum) {
  return anew(args).log ? -log_of_sum(sum) : 1 / sum;
}
__device__ __forceinline__ void finish_log(const RowArgs& args, float most, float by, Piece& p) {
  const float times = softmax_scale(args);
  for_elements([&](int i) { p.v[i] = __fadd_rn(__fmul_rn(__fadd_rn(p.v[i], -most), times), by); });
}

// A row in registers.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void softmax_kept(const RowArgs& given) {
  RowInput<kConfig> input(given);
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const RowArgs& args = row.args;
    input.start(row);
    const auto load = [&](long long n, int count, Piece& p, int j) {
      input.added(n, count, p, j);
      sign_piece<kConfig>(args, count, p);
    };
    float most = kLeastValue, sum = 0;
    row.template each<true>(
        load, [&](long long, int, Piece& p) { for_elements([&](int i) { most = at_least(p.v[i], most); }); });
    input.ask_next(row);
    most = row.reduce(most, [](float a, float b) { return at_least(a, b); });
    row.template each<false>(load, [&](long long, int, Piece& p) {
      const float times = softmax_factor(args);
      const bool keeps = anew(args).log;
      for_elements([&](int i) {
        const float e = exponential(p.v[i], most, times);
        sum = __fadd_rn(sum, e);
        p.v[i] = keeps ? p.v[i] : e;
      });
    });
    sum = row.reduce(sum, sum_of);
    const float by = softmax_by(args, sum);
    store_row<kConfig>(row, [&](long long, int, Piece& p, int) {
      if (anew(args).log) return finish_log(args, most, by, p);
      for_elements([&](int i) { p.v[i] = __fmul_rn(p.v[i], by); });
    });
  });
}

// The largest value of some elements and the sum of their exponentials.
struct SoftmaxPair {
  float most, sum;
};
__device__ __forceinline__ SoftmaxPair merged(const SoftmaxPair& a, const SoftmaxPair& b, float factor) {
  const float most = at_least(a.most, b.most);
  return {most,
          __fmaf_rn(b.sum, exponential(b.most, most, factor), __fmul_rn(a.sum, exponential(a.most, most, factor)))};
}

inline constexpr int kChunkPieces = 2;  // of a thread

// One thread's part of a chunk.
template <RowGpuConfig kConfig>
struct SoftmaxChunk {
  static constexpr int kSize = GpuRow<kConfig>::kStep * kChunkPieces;
  static constexpr bool kAhead =
      kConfig.whole && kConfig.x != DType::kNone;  // the next chunk is asked for before it is needed
  const GpuRow<kConfig>& row;
  const RowInput<kConfig>& input;
  Piece p[kChunkPieces];
  PieceWords<kConfig.x> words[kAhead ? kChunkPieces : 1];

  // body(n, count, piece), with constants as pieces.
  template <class Body>
  __device__ __forceinline__ void each(int chunk, Body&& body) {
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
  __device__ __forceinline__ void take(int chunk) {
    each(chunk, [&](long long n, int count, int j) {
      if constexpr (kAhead) {
        words[j].widen(p[j]);
      } else {
        input.added(n, count, p[j], 0);
      }
      sign_piece<kConfig>(row.args, count, p[j]);
    });
  }
  __device__ __forceinline__ SoftmaxPair find() const {
    SoftmaxPair of{kLeastValue, 0};
#pragma unroll
    for (int j = 0; j < kChunkPieces; ++j) for_elements([&](int i) { of.most = at_least(p[j].v[i], of.most); });
    of.most = row.reduce(of.most, [](float a, float b) { return at_least(a, b); });
    const float times = softmax_factor(row.args);
#pragma unroll
    for (int j = 0; j < kChunkPieces; ++j)
      for_elements([&](int i) { of.sum = __fadd_rn(of.sum, exponential(p[j].v[i], of.most, times)); });
    of.sum = row.reduce(of.sum, sum_of);
    return of;
  }
  __device__ __forceinline__ void store(int chunk, float most, float by) {
    const RowArgs& args = row.args;
    const DType out = kConfig.out == DType::kNone ? args.out.dtype : kConfig.out;
    char* const to = row_start<kConfig.out>(args.out, row.at);
    each(chunk, [&](long long n, int count, int j) {
      Piece& of = p[j];
      if (anew(args).log) {
        finish_log(args, most, by, of);
      } else {
        const float times = softmax_factor(args);
        for_elements([&](int i) { of.v[i] = __fmul_rn(exponential(of.v[i], most, times), by); });
      }
      store_piece<kConfig.out, kConfig.whole>(to, out, n, count, of);
    });
  }
};

// Rows that are read twice. `part_count` chunks of each have a block each, in two steps, where there are too few rows for all blocks.
template <RowGpuConfig kConfig>
__device__ __forceinline__ void softmax_chunks(const RowArgs& given) {
  constexpr int kRows = GpuRow<kConfig>::kRows;
  const bool split = given.part_count > 0;
  const long long each = split ? given.part_count : 1, items = given.rows * each;
#pragma unroll 1
  for (long long first = static_cast<long long>(blockIdx.x) * kRows; first < items; first += given.grid * kRows) {
    const RowArgs& args = anew(given);
    const long long mine = first + threadIdx.x / kConfig.threads, item = mine < items ? mine : items - 1;
    const long long index = item / each;
    const int chunk = static_cast<int>(item - index * each);
    GpuRow<kConfig> row{args, index, 0, row_index(args, index), mine < items, row_thread<kConfig>(), {}};
    RowInput<kConfig> input(args);
    input.start(row);
    SoftmaxChunk<kConfig> part{row, input, {}, {}};
    auto* const pairs = reinterpret_cast<SoftmaxPair*>(args.parts) + index * each;

    // The pair of a chunk, for the next step.
    if (args.step == RowStep::kFind) {
      part.ask(chunk);
      part.take(chunk);
      const SoftmaxPair found = part.find();
      if (row.there && row.thread == 0) pairs[chunk] = found;
      continue;
    }

    // Of all chunks, in their order. The last one is asked for again first: its lines were read last.
    const int chunks = static_cast<int>((args.n + part.kSize - 1) / part.kSize);
    SoftmaxPair all{kLeastValue, 0};
    part.ask(split ? chunk : 0);
#pragma unroll 1
    for (int c = 0; c < chunks; ++c) {
      SoftmaxPair next;
      if (split) {
        next = pairs[c];
      } else {
        part.take(c);
        part.ask(c + 1 < chunks ? c + 1 : c);
        next = part.find();
      }
      all = merged(all, next, softmax_factor(args));
    }
    const float by = softmax_by(args, all.sum);
    const int first_chunk = split ? chunk : 0;
#pragma unroll 1
    for (int c = split ? chunk : chunks - 1; c >= first_chunk; --c) {
      part.take(c);
      if (c > first_chunk) part.ask(c - 1);
      part.store(c, all.most, by);
    }
  }
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void softmax_gpu(const RowArgs& args) {
  if constexpr (kConfig.pieces > 0) {
    softmax_kept<kConfig>(args);
  } else {
    softmax_chunks<kConfig>(args);
  }
}

}  // namespace tilewright
