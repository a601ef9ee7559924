// SPDX-License-Identifier: MIT
// top_k_gpu: chunks of a row have a block each, which keeps them in registers and lists the best k of them; a block a row finds the best k of
// these lists and sorts them. Typed by its config, or at run time.
#pragma once

#include "tile/common/quotient.hpp"
#include "tile/gpu/block_select.cuh"
#include "top_k/top_k_args.hpp"

namespace tilewright {

// How many all chunks of a row list: k each, but for the last one.
__device__ __forceinline__ int listed_in_row(const TopKArgs& args, long long row) {
  const long long length = top_k_length(args, row), whole = length / kTopKChunk;
  const int rest = static_cast<int>(length - whole * kTopKChunk);
  return static_cast<int>(whole) * args.k + (rest < args.k ? rest : args.k);
}

// An element of a row.
struct RowElement {
  float x;
  long long index;
  __device__ __forceinline__ float value() const { return x == x ? x : __builtin_bit_cast(float, 0xFF800000u); }
  __device__ __forceinline__ TokenKey key() const { return top_k_key(x, index); }
  __device__ __forceinline__ unsigned long long mass() const { return 0; }
};

// The best of a chunk.
template <TopKConfig kConfig>
__device__ __forceinline__ void find_best(const TopKArgs& args, long long item) {
  const Quotient of = divided_by(item, args.chunks);
  const long long row = of.whole, start = of.rest * kTopKChunk;
  const long long left = top_k_length(args, row) - start;
  if (left <= 0) return;
  const int count = left < kTopKChunk ? static_cast<int>(left) : kTopKChunk;
  const int bits = kConfig.x == DType::kNone ? dtype_bits(args.dtype) : dtype_bits(kConfig.x);
  const char* const from = static_cast<const char*>(args.x) + row * args.stride * bits / 8;
  Piece p[2];
  const auto place = [](int j) { return (j * kSelectThreads + anew(static_cast<int>(threadIdx.x))) * kRowPiece; };
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int here = count - place(j);
    load_piece<kConfig.x>(from, args.dtype, start + place(j), here < 0 ? 0 : here < kRowPiece ? here : kRowPiece, p[j]);
  }
  const auto each = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      for_elements([&](int i) {
        if (place(j) + i < count) body(RowElement{renewed(p[j].v[i]), start + place(j) + i});
      });
    }
  };
  TokenKey end = 1;
  if (count > args.k) end = find_end(0, 0, {static_cast<unsigned>(args.k), kAllMass}, false, each).key;

  // In any order.
  SelectShared& shared = select_shared();
  __syncthreads();
  if (threadIdx.x == 0) shared.listed = 0;
  __syncthreads();
  auto* const list = reinterpret_cast<TokenKey*>(anew(args).workspace) + item * top_k_listed(anew(args).k);
  each([&](const RowElement& element) {
    const TokenKey key = element.key();
    if (key >= end) list[add_shared(&shared.listed, 1)] = key;
  });
}

inline constexpr int kHeldKeys = 2;  // of a thread
#if defined(__AMDGCN__)
inline constexpr int kKeysAtOnce = 2;  // that do not wait for each other
#else
inline constexpr int kKeysAtOnce = 4;
#endif

// The best of a row's lists, in order.
__device__ __forceinline__ void choose_best(const TopKArgs& args, long long row) {
  // Few stay in registers, a zero where there is none.
  const int total = listed_in_row(args, row), me = static_cast<int>(threadIdx.x);
  const bool holds = total <= kHeldKeys * kSelectThreads;
  static_assert(kMostTopK <= kTopKChunk, "whole chunks list k, so that a row's lists are one");
  const auto key_at = [&](int i) {
    const TopKArgs& now = anew(args);
    return (reinterpret_cast<const TokenKey*>(now.workspace) + row * now.chunks * top_k_listed(now.k))[i];
  };
  TokenKey held[kHeldKeys];
#pragma unroll
  for (int j = 0; j < kHeldKeys; ++j) {
    const int i = me + j * kSelectThreads;
    held[j] = holds && i < total ? key_at(i) : 0;
  }
  const auto each = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < kHeldKeys; ++j) {
      if (held[j] != 0) body(KeyedToken{held[j]});
    }
    if (holds) return;
#pragma unroll 1
    for (int first = me; first < total; first += kKeysAtOnce * kSelectThreads) {
      TokenKey some[kKeysAtOnce];
#pragma unroll
      for (int j = 0; j < kKeysAtOnce; ++j) {
        const int i = first + j * kSelectThreads;
        some[j] = key_at(i < total ? i : first);
      }
#pragma unroll
      for (int j = 0; j < kKeysAtOnce; ++j) {
        if (first + j * kSelectThreads < total) body(KeyedToken{some[j]});
      }
    }
  };
  TokenKey end = 1;
  if (args.chunks > 1 && top_k_length(args, row) > args.k) {
    end = find_end(0, 0, {static_cast<unsigned>(args.k), kAllMass}, false, each).key;
  }

  // A power of two of them, zeros behind.
  int size = 2;
  while (size < args.k) size *= 2;
  auto* const sorted = reinterpret_cast<TokenKey*>(dynamic_shared() + kSelectSharedBytes);
  SelectShared& shared = select_shared();
  __syncthreads();
#pragma unroll 1
  for (int i = me; i < size; i += kSelectThreads) sorted[i] = 0;
  if (me == 0) shared.listed = 0;
  __syncthreads();
  each([&](const KeyedToken& token) {
    if (token.key() >= end) sorted[add_shared(&shared.listed, 1)] = token.key();
  });

  // Bitonic, the best first.
#pragma unroll 1
  for (int run = 2; run <= size; run *= 2) {
#pragma unroll 1
    for (int apart = run / 2; apart > 0; apart /= 2) {
      __syncthreads();
#pragma unroll 1
      for (int i = me; i < size / 2; i += kSelectThreads) {
        const int low = (i & ~(apart - 1)) * 2 | (i & (apart - 1)), high = low + apart;
        const TokenKey a = sorted[low], b = sorted[high];
        const bool falls = (low & run) == 0;
        if (falls ? a < b : a > b) sorted[low] = b, sorted[high] = a;
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int j = me; j < args.k; j += kSelectThreads) {
    store_top_k(anew(args), row, j, sorted[j] == 0 ? -1 : key_id(sorted[j]));
  }
}

template <TopKConfig kConfig>
__device__ __forceinline__ void top_k_gpu(const TopKArgs& given) {
  if (given.step != TopKStep::kFind) wait_for_previous_kernel();
  const long long items = given.step == TopKStep::kFind ? given.rows * given.chunks : given.rows;
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += anew(given).grid) {
    const TopKArgs& args = anew(given);
    if (args.step == TopKStep::kFind) {
      find_best<kConfig>(args, item);
    } else {
      choose_best(args, item);
    }
  }
}

}  // namespace tilewright
