// SPDX-License-Identifier: MIT
// top_k_gpu: blocks list the best of a row's chunks, of few with some others, and one block a row puts the best of these lists in order. Of many
// best the largest of groups of elements tell first what all of a row's best reach. Typed by its config, or at run time.
#pragma once

#include "top_k/top_k_bound.cuh"
#include "top_k/top_k_chunk.cuh"
#include "top_k/top_k_few.cuh"
#include "top_k/top_k_order.cuh"

namespace tilewright {

// To the row's outputs; 0 stands for what is not there.
__device__ __forceinline__ void store_key(const TopKArgs& args, long long row, int place, TokenKey key) {
  store_top_k(anew(args), row, place, key == 0 ? -1 : key_id(key));
}

// The best few of those listed to the row's outputs, -1 behind them.
__device__ __forceinline__ void store_few(const TopKArgs& args, long long row, int listed) {
  const int k = args.k, me = static_cast<int>(select_thread());
  if (me >= listed && me < k) store_top_k(anew(args), row, me, -1);
  rank_few(k, listed, [&](int place, TokenKey key) { store_top_k(anew(args), row, place, key_id(key)); });
}

// Of few best, those of a chunk: to its list, or, of a row's only chunk, to the outputs.
template <TopKGpuConfig kConfig>
__device__ __forceinline__ void find_few(const TopKArgs& args, long long item) {
  const RowChunk chunk = chunk_of_item(args, item);
  const int count = chunk.count;
  const long long start = chunk.start;
  if (count == 0 && args.chunks > 1) return;
  Piece p[2];
  load_chunk<kConfig>(args, chunk, p);
  const auto each = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      for_elements([&](int i) {
        if (piece_place(j) + i < count) body(RowElement{renewed(p[j].v[i]), start + piece_place(j) + i});
      });
    }
  };
  // What is not there is minus infinity.
  const auto all = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      for_elements([&](int i) { body(RowNumber{p[j].v[i], start + piece_place(j) + i}); });
    }
  };
  SelectShared& shared = select_shared();
  const int places = args.chunks == 1 ? kSelectThreads : args.places;
  int listed = list_few(args.k, some_warp_bits(count / (kRowLanes * kRowPiece)), places, all);
  if (listed < 0) {
    TokenKey end = 1;
    if (count > places) end = find_end(0, 0, {static_cast<unsigned>(args.k), kAllMass}, false, each).key;
    // In any order.
    __syncthreads();
    if (threadIdx.x == 0) shared.listed = 0;
    __syncthreads();
    each([&](const RowElement& element) {
      const TokenKey key = element.key();
      if (key >= end) shared.member[add_shared(&shared.listed, 1)] = key;
    });
    __syncthreads();
    listed = static_cast<int>(shared.listed);
  }
  if (anew(args).chunks == 1) return store_few(anew(args), chunk.row, listed);
  const auto me = static_cast<int>(select_thread());
  if (me < anew(args).places) {
    auto* const lists = reinterpret_cast<TokenKey*>(anew(args).workspace);
    lists[item * anew(args).places + me] = me < listed ? shared.member[me] : 0;
  }
}

// Of few best, a row's lists, and this thread's part of their keys, some of them in registers; a zero where there is none.
template <int kHeld>
struct RowLists {
  // Keys that do not wait for each other.
#if defined(__AMDGCN__)
  static constexpr int kAtOnce = 2;
#else
  static constexpr int kAtOnce = 4;
#endif
  const TopKArgs* args;
  long long row;
  int total;
  TokenKey held[kHeld];

  __device__ __forceinline__ RowLists(const TopKArgs& given, long long its_row)
      : args(&given), row(its_row), total(static_cast<int>(chunks_of_row(given, its_row)) * given.places) {
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
  const RowLists<7> lists(args, row);
  // Lists of whole chunks begin in a warp each.
  const auto whole = static_cast<int>(top_k_length(args, row) / kTopKChunk);
  return list_few(args.k, some_warp_bits(whole), kSelectThreads, [&](auto&& body) { lists.each(body); });
}

// The best few of a row's lists, in order.
__device__ __forceinline__ void choose_few(const TopKArgs& args, long long row) {
  const int listed = list_few_of_row(args, row);
  if (listed >= 0) return store_few(anew(args), row, listed);
  const RowLists<1> lists(anew(args), row);
  order_any(
      anew(args).k, lists.total, kMostFew, [&](auto&& body) { lists.each(body); },
      [&](int place, TokenKey key) { store_key(args, row, place, key); });
}

// Many best of a row, in order: of what reaches its bound, or of all its elements.
template <TopKGpuConfig kConfig>
__device__ __forceinline__ void choose_many(const TopKArgs& args, long long row) {
  const auto store = [&](int place, TokenKey key) { store_key(args, row, place, key); };
  const auto k = [&] { return anew(args).k; };
  const ReachingKeys<kConfig> keys(args, row);
  if (keys.listed >= 0) {
    const auto each = [&](auto&& body) { keys.each(body); };
    const BestBins best(k(), {keys.largest, keys.bound}, each);
    if (best.serve && !best.full) return order_by_bins(best, k(), each, store);
    return order_any(k(), keys.listed, kMostOrdered, each, store);
  }
  const RowElements<kConfig> elements{&args, row};
  const auto each = [&](auto&& body) { elements.each(body); };
  const BestBins best(k(), bins_of_values<kOrderBins>(each), each);
  if (best.serve && !best.full) return order_by_bins(best, k(), each, store);
  order_any(k(), top_k_length(anew(args), row), kMostOrdered, each, store);
}

template <TopKGpuConfig kConfig>
__device__ __forceinline__ void top_k_gpu(const TopKArgs& given) {
  if (given.waits) wait_for_previous_kernel();
  const bool finds = given.step == TopKStep::kFind;
  if constexpr (!kConfig.few) {
    if (finds) return find_largest<kConfig>(given);
  }
  const long long items = given.rows * (finds ? given.chunks : 1);
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += anew(given).grid) {
    const TopKArgs& args = anew(given);
    if constexpr (!kConfig.few) {
      choose_many<kConfig>(args, item);
    } else if (args.step == TopKStep::kFind) {
      find_few<kConfig>(args, item);
    } else {
      choose_few(args, item);
    }
  }
}

}  // namespace tilewright
