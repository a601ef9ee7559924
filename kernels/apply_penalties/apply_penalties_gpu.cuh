// SPDX-License-Identifier: MIT
// apply_penalties_gpu: a block a chunk of a row counts what was seen in shared memory, then changes these logits. Numbers of tokens are read
// once a chunk, from caches. Typed by its config, or at run time. One source for NVIDIA and AMD.
#pragma once

#include "apply_penalties/apply_penalties_args.hpp"
#include "tile/gpu/atomics.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

// The kernel's arguments, which on AMD GPUs need not stay in scalar registers.
__device__ __forceinline__ const ApplyPenaltiesArgs& anew(const ApplyPenaltiesArgs& args) {
#if defined(__AMDGCN__)
  return read_again(args);
#else
  return args;
#endif
}

// Of the tokens from `start` on. add(token from there, how often).
template <class Add>
__device__ __forceinline__ void count_seen(const SeenTokens& s, long long row, long long start, int length, Add&& add) {
  if (s.counts != nullptr) {
    const int* const counts = s.counts + row * s.stride_counts + start;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < length; i += kPenaltyThreads) {
      const int often = counts[i];
      if (often > 0) add(i, often);
    }
  }
  if (s.tokens == nullptr) return;
  const int* const tokens = s.tokens + row * s.stride_row;
#pragma unroll 1
  for (long long i = threadIdx.x; i < s.count; i += kPenaltyThreads) {
    const long long at = tokens[i * s.stride] - start;
    if (at >= 0 && at < length) add(static_cast<int>(at), 1);
  }
}

template <ApplyPenaltiesConfig kConfig>
__device__ __forceinline__ void apply_penalties_gpu(const ApplyPenaltiesArgs& given) {
  auto* const seen = reinterpret_cast<unsigned*>(dynamic_shared());
  const long long items = given.rows * given.chunks;
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += anew(given).grid) {
    const ApplyPenaltiesArgs& args = anew(given);
    const long long row = item / args.chunks, start = (item - row * args.chunks) * kPenaltyChunk, left = args.n - start;
    const int length = left < kPenaltyChunk ? static_cast<int>(left) : kPenaltyChunk;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kPenaltyChunk; i += kPenaltyThreads) seen[i] = 0;
    __syncthreads();
    const auto count = [&](int at, int often) { add_shared(&seen[at], static_cast<unsigned>(often)); };
    count_seen(args.prompt, row, start, length, count);
    __syncthreads();
    // Of the prompt it does not matter how often.
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kPenaltyChunk; i += kPenaltyThreads) {
      seen[i] = seen[i] != 0 ? kInPrompt : 0;
    }
    __syncthreads();
    count_seen(args.output, row, start, length, count);
    __syncthreads();

    const RowPenalties penalties = row_penalties(args, row);
    const int bytes = dtype_bits(kConfig.x == DType::kNone ? args.dtype : kConfig.x) / 8;
    const char* const from = static_cast<const char*>(args.logits) + (row * args.stride + start) * bytes;
    char* const to = static_cast<char*>(args.out) + (row * args.stride_out + start) * bytes;
#pragma unroll 1
    for (int n = static_cast<int>(threadIdx.x) * kRowPiece; n < length; n += kPenaltyThreads * kRowPiece) {
      unsigned any = 0;
      for_elements([&](int i) { any |= seen[n + i]; });
      if (any == 0 && from == to) continue;
      const int there = length - n < kRowPiece ? length - n : kRowPiece;
      Piece x;
      load_piece<kConfig.x>(from, args.dtype, n, there, x);
      for_elements([&](int i) { x.v[i] = penalised(x.v[i], seen[n + i], penalties); });
      store_piece<kConfig.x>(to, args.dtype, n, there, x);
    }
    __syncthreads();
  }
}

}  // namespace tilewright
