// SPDX-License-Identifier: MIT
// apply_penalties_gpu: a block changes the logits of a chunk of a row that were seen. It counts lists of tokens in shared memory, which are read
// once a chunk, from caches. Typed by its config, or at run time. One source for NVIDIA and AMD.
#pragma once

#include "apply_penalties/apply_penalties_args.hpp"
#include "tile/common/quotient.hpp"
#include "tile/gpu/atomics.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

// A chunk of a row.
struct PenaltyChunk {
  long long row, start;
  int length;
};
// Which words count eight tokens.
struct SeenPiece {
  unsigned word[kRowPiece];

  __device__ __forceinline__ bool any() const {
    unsigned all = 0;
    for_elements([&](int i) { all |= word[i]; });
    return all != 0;
  }
};

// What counts tell of the eight tokens from n on.
__device__ __forceinline__ SeenPiece seen_by_counts(const ApplyPenaltiesArgs& args, const PenaltyChunk& chunk, int n) {
  SeenPiece seen{};
  const int there = chunk.length - n < kRowPiece ? chunk.length - n : kRowPiece;
  const auto add = [&](const SeenTokens& s, auto&& word_of) {
    if (s.counts == nullptr) return;
    // Whole numbers, as they lie.
    Piece counts;
    const int* const from = s.counts + chunk.row * s.stride_counts + chunk.start + n;
    load_f32<false>(reinterpret_cast<const char*>(from), there, counts);
    for_elements([&](int i) {
      const int often = __builtin_bit_cast(int, counts.v[i]);
      seen.word[i] += often > 0 ? word_of(static_cast<unsigned>(often)) : 0;
    });
  };
  // Of the prompt it does not matter how often.
  add(args.prompt, [](unsigned) { return kInPrompt; });
  add(args.output, [](unsigned often) { return often; });
  return seen;
}
// mark(token of the chunk) of each in a list that is one.
template <class Mark>
__device__ __forceinline__ void for_listed(const SeenTokens& s, const PenaltyChunk& chunk, Mark&& mark) {
  if (s.tokens == nullptr) return;
  const int* const tokens = s.tokens + chunk.row * s.stride_row;
  constexpr int kAtOnce = 4;
#pragma unroll 1
  for (long long first = threadIdx.x; first < s.count; first += kAtOnce * kPenaltyThreads) {
    int token[kAtOnce];
    const auto place = [&](int j) { return first + j * kPenaltyThreads; };
    // Nothing branches around loads.
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) token[j] = tokens[(place(j) < s.count ? place(j) : first) * s.stride];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const long long at = token[j] - chunk.start;
      if (place(j) < s.count && at >= 0 && at < chunk.length) mark(static_cast<int>(at));
    }
  }
}

// The logits of a chunk, of which seen(n) tells what was seen from there on.
template <ApplyPenaltiesConfig kConfig, class Seen>
__device__ __forceinline__ void penalise(const ApplyPenaltiesArgs& args, const PenaltyChunk& chunk, Seen&& seen) {
  const RowPenalties penalties = row_penalties(args, chunk.row);
  const int bytes = dtype_bits(kConfig.x == DType::kNone ? args.dtype : kConfig.x) / 8;
  const char* const from = static_cast<const char*>(args.logits) + (chunk.row * args.stride + chunk.start) * bytes;
  char* const to = static_cast<char*>(args.out) + (chunk.row * args.stride_out + chunk.start) * bytes;
  constexpr int kAtOnce = kConfig.x == DType::kNone ? 1 : kPenaltyAtOnce, kStep = kPenaltyThreads * kRowPiece;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) * kRowPiece; first < chunk.length; first += kAtOnce * kStep) {
    SeenPiece words[kAtOnce] = {};
    Piece x[kAtOnce] = {};
    bool changes[kAtOnce];
    const auto count_at = [&](int n) {
      const int left = chunk.length - n;
      return left < 0 ? 0 : left < kRowPiece ? left : kRowPiece;
    };
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int n = first + j * kStep;
      if (count_at(n) > 0) words[j] = seen(n);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int n = first + j * kStep;
      changes[j] = count_at(n) > 0 && (from != to || words[j].any());
      if (changes[j]) load_piece<kConfig.x>(from, args.dtype, n, count_at(n), x[j]);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int n = first + j * kStep;
      if (!changes[j]) continue;
      for_elements([&](int i) { x[j].v[i] = penalised(x[j].v[i], words[j].word[i], penalties); });
      store_piece<kConfig.x>(to, args.dtype, n, count_at(n), x[j]);
    }
  }
}

// Lists are counted in shared memory, beside what counts tell.
template <ApplyPenaltiesConfig kConfig>
__device__ __forceinline__ void penalise_listed(const ApplyPenaltiesArgs& args, const PenaltyChunk& chunk) {
  auto* const seen = reinterpret_cast<unsigned*>(dynamic_shared());
#pragma unroll 1
  for (int n = static_cast<int>(threadIdx.x) * kRowPiece; n < chunk.length; n += kPenaltyThreads * kRowPiece) {
    const SeenPiece first = seen_by_counts(args, chunk, n);
    store_vector4(seen + n, Vector4<unsigned>{first.word[0], first.word[1], first.word[2], first.word[3]});
    store_vector4(seen + n + 4, Vector4<unsigned>{first.word[4], first.word[5], first.word[6], first.word[7]});
  }
  __syncthreads();
  for_listed(args.prompt, chunk, [&](int at) { set_shared(&seen[at], kInPrompt); });
  for_listed(args.output, chunk, [&](int at) { add_shared(&seen[at], 1); });
  __syncthreads();
  penalise<kConfig>(args, chunk, [&](int n) {
    const Vector4<unsigned> one = load_vector4(seen + n), two = load_vector4(seen + n + 4);
    return SeenPiece{{one.x, one.y, one.z, one.w, two.x, two.y, two.z, two.w}};
  });
  __syncthreads();
}

template <ApplyPenaltiesConfig kConfig>
__device__ __forceinline__ void apply_penalties_gpu(const ApplyPenaltiesArgs& given) {
  const bool lists = given.prompt.tokens != nullptr || given.output.tokens != nullptr;
#pragma unroll 1
  for (long long item = blockIdx.x; item < anew(given).rows * anew(given).chunks; item += anew(given).grid) {
    const ApplyPenaltiesArgs& args = anew(given);
    const Quotient of = divided_by(item, args.chunks);
    const long long start = of.rest * kPenaltyChunk, left = args.n - start;
    const PenaltyChunk chunk{of.whole, start, left < kPenaltyChunk ? static_cast<int>(left) : kPenaltyChunk};
    if (lists) {
      penalise_listed<kConfig>(args, chunk);
    } else {
      penalise<kConfig>(args, chunk, [&](int n) { return seen_by_counts(args, chunk, n); });
    }
  }
}

}  // namespace tilewright
