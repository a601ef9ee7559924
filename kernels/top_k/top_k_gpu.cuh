// SPDX-License-Identifier: MIT
// top_k_gpu: chunks of a row have a block each, which keeps them in registers and lists the best k of them, of few with some others; a block a
// row finds the best k of these lists and puts them in order. Typed by its config, or at run time.
#pragma once

#include "tile/common/quotient.hpp"
#include "top_k/top_k_few.cuh"

namespace tilewright {

// How many places of the workspace the lists of a row's chunks take: of many k each, but for the last one.
__device__ __forceinline__ int listed_in_row(const TopKArgs& args, long long row) {
  const long long length = top_k_length(args, row), whole = length / kTopKChunk;
  if (args.few) {
    return static_cast<int>((length + kTopKChunk - 1) / kTopKChunk) * args.places;
  }
  const int rest = static_cast<int>(length - whole * kTopKChunk);
  return static_cast<int>(whole) * args.k + (rest < args.k ? rest : args.k);
}

// An element of a row.
struct RowElement {
  float x;
  long long index;
  __device__ __forceinline__ float value() const { return top_k_value(x); }
  __device__ __forceinline__ TokenKey key() const { return top_k_key(x, index); }
  __device__ __forceinline__ unsigned long long mass() const { return 0; }
};

// One that is a number, or whose key nobody asks for.
struct RowNumber {
  float x;
  long long index;
  __device__ __forceinline__ float value() const { return x; }
  __device__ __forceinline__ TokenKey key() const { return token_key(x, index); }
};

// The best few of those listed to the row's outputs, -1 behind them.
__device__ __forceinline__ void store_few(const TopKArgs& args, long long row, int listed) {
  const int k = args.k, me = static_cast<int>(select_thread());
  if (me >= listed && me < k) store_top_k(anew(args), row, me, -1);
  rank_few(k, listed, [&](int place, TokenKey key) { store_top_k(anew(args), row, place, key_id(key)); });
}

// The best of a chunk: to its list, or, of few of a row's only chunk, to the outputs.
template <TopKConfig kConfig>
__device__ __forceinline__ void find_best(const TopKArgs& args, long long item) {
  const Quotient of = divided_by(item, args.chunks);
  const long long row = of.whole, start = of.rest * kTopKChunk;
  const long long left = top_k_length(args, row) - start;
  if (left <= 0 && args.chunks > 1) return;
  const int count = left < kTopKChunk ? static_cast<int>(left) : kTopKChunk;
  const int bits = kConfig.x == DType::kNone ? dtype_bits(args.dtype) : dtype_bits(kConfig.x);
  const char* const from = static_cast<const char*>(args.x) + row * args.stride * bits / 8;
  Piece p[2];
  const auto place = [](int j) { return (j * kSelectThreads + anew(static_cast<int>(threadIdx.x))) * kRowPiece; };
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int here = count - place(j);
    load_piece<kConfig.x>(from, args.dtype, start + place(j), here < 0 ? 0 : here < kRowPiece ? here : kRowPiece, p[j]);
    if (here < kRowPiece) {
      for_elements([&](int i) { p[j].v[i] = i < here ? p[j].v[i] : kMinusInfinity; });
    }
  }
  const auto each = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      for_elements([&](int i) {
        if (place(j) + i < count) body(RowElement{renewed(p[j].v[i]), start + place(j) + i});
      });
    }
  };
  // What is not there is minus infinity.
  const auto all = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      for_elements([&](int i) { body(RowNumber{p[j].v[i], start + place(j) + i}); });
    }
  };
  SelectShared& shared = select_shared();
  const auto few = [&] { return anew(args).few; };
  const auto list_of = [&] { return reinterpret_cast<TokenKey*>(anew(args).workspace) + item * anew(args).places; };
  const int places = args.chunks == 1 ? kSelectThreads : args.places;
  int listed = few() ? list_few(args.k, some_warp_bits(count / (kRowLanes * kRowPiece)), places, all) : -1;
  if (listed < 0) {
    TokenKey end = 1;
    if (count > (few() ? places : args.k))
      end = find_end(0, 0, {static_cast<unsigned>(args.k), kAllMass}, false, each).key;
    // In any order.
    TokenKey* const to = few() ? shared.member : list_of();
    __syncthreads();
    if (threadIdx.x == 0) shared.listed = 0;
    __syncthreads();
    each([&](const RowElement& element) {
      const TokenKey key = element.key();
      if (key >= end) to[add_shared(&shared.listed, 1)] = key;
    });
    if (!few()) return;
    __syncthreads();
    listed = static_cast<int>(shared.listed);
  }
  if (anew(args).chunks == 1) return store_few(anew(args), item, listed);  // an item is a row
  const auto me = static_cast<int>(select_thread());
  if (me < anew(args).places) list_of()[me] = me < listed ? shared.member[me] : 0;
}

inline constexpr int kHeldKeys = 1, kHeldOfFew = 7;  // of a thread

// A row's lists, and this thread's part of their keys, some of them in registers; a zero where there is none.
template <int kHeld>
struct RowLists {
  // Keys that do not wait for each other.
#if defined(__AMDGCN__)
  static constexpr int kAtOnce = 2;
#else
  static constexpr int kAtOnce = kHeld > kHeldKeys ? 4 : 8;
#endif
  const TopKArgs* args;
  long long row;
  int total;
  TokenKey held[kHeld];

  __device__ __forceinline__ RowLists(const TopKArgs& given, long long its_row)
      : args(&given), row(its_row), total(listed_in_row(given, its_row)) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * kSelectThreads;
      held[j] = i < total ? key_at(i) : 0;
    }
  }
  __device__ __forceinline__ TokenKey key_at(int i) const {
    const TopKArgs& now = anew(*args);
    return (reinterpret_cast<const TokenKey*>(now.workspace) + row * now.chunks * now.places)[i];
  }
  template <class Body>
  __device__ __forceinline__ void each(Body&& body) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (held[j] != 0) body(KeyedToken{held[j]});
    }
#pragma unroll 1
    for (int first = static_cast<int>(threadIdx.x) + kHeld * kSelectThreads; first < total;
         first += kAtOnce * kSelectThreads) {
      TokenKey some[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = first + j * kSelectThreads;
        some[j] = key_at(i < total ? i : first);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j * kSelectThreads < total && some[j] != 0) body(KeyedToken{some[j]});
      }
    }
  }
};

// What comes into question as the few best of a row: how many are listed, or -1.
__device__ __forceinline__ int list_few_of_row(const TopKArgs& args, long long row) {
  const RowLists<kHeldOfFew> lists(args, row);
  // Lists of whole chunks begin in a warp each.
  const auto whole = static_cast<int>(top_k_length(args, row) / kTopKChunk);
  return list_few(args.k, some_warp_bits(whole), kSelectThreads, [&](auto&& body) { lists.each(body); });
}

// The best of a row's lists, in order.
__device__ __forceinline__ void choose_best(const TopKArgs& args, long long row) {
  const auto few = [&] { return anew(args).few; };
  const int listed = few() ? list_few_of_row(args, row) : -1;
  if (listed >= 0) return store_few(anew(args), row, listed);
  const RowLists<kHeldKeys> lists(anew(args), row);
  const auto each = [&](auto&& body) { lists.each(body); };
  TokenKey end = 1;
  if (args.chunks > 1 && top_k_length(args, row) > args.k) {
    end = find_end(0, 0, {static_cast<unsigned>(args.k), kAllMass}, false, each).key;
  }

  // A power of two of them, zeros behind.
  int size = 2;
  while (size < args.k) size *= 2;
  auto* const sorted = reinterpret_cast<TokenKey*>(dynamic_shared() + kSelectSharedBytes);
  SelectShared& shared = select_shared();
  const auto me = static_cast<int>(threadIdx.x);
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
