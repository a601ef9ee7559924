// SPDX-License-Identifier: MIT
// The best k of a block's tokens in their order: sorted into bins of values, in which each finds its place. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/block_select.cuh"
#include "top_k/top_k_args.hpp"

namespace tilewright {

inline constexpr unsigned kMostInBin = 128;  // of what is ordered by bins

// Behind what a choice takes.
struct OrderShared {
  TokenKey sorted[kMostOrdered];  // kMostFew, and nothing behind, of few best
  unsigned first[kOrderBins];     // place of a bin's first token
  int reaching[kMostReaching];    // groups that reach a row's bound
};
static_assert(kSelectSharedBytes + sizeof(OrderShared) <= top_k_shared_bytes(/*few=*/false));
__device__ __forceinline__ OrderShared& order_shared() {
  return *reinterpret_cast<OrderShared*>(dynamic_shared() + kSelectSharedBytes);
}

// Which bins the best k of each(body)'s tokens are in, or all tokens of fewer, and where they begin.
struct BestBins {
  ValueBins<kOrderBins> bins;
  bool serve;       // else the rest is of no use
  bool full;        // one of them has more than kMostInBin
  unsigned last;    // of them
  unsigned listed;  // tokens of them
  unsigned all;     // tokens

  template <class Each>
  __device__ __forceinline__ BestBins(int k, const ValueBins<kOrderBins>& given, Each&& each)
      : bins(given), serve(given.serve()), full(false), last(0), listed(0), all(0) {
    if (!serve) return;
    OrderShared& order = order_shared();
    SelectShared& shared = select_shared();
    constexpr int kOwn = kOrderBins / kSelectThreads;
    const auto me = static_cast<int>(select_thread());
    const auto sought = static_cast<unsigned>(k);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kOwn; ++j) order.first[me * kOwn + j] = 0;
    if (me == 0) shared.members = 0, shared.listed = 0, shared.reached[0] = kOrderBins - 1;
    __syncthreads();
    each([&](const auto& token) { add_shared(&order.first[bins.of(token.value())], 1); });
    __syncthreads();
    unsigned count[kOwn], own = 0;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) count[j] = order.first[me * kOwn + j], own += count[j];
    const ThreadSums sums = sums_of_threads(own);
    auto before = static_cast<unsigned>(sums.before);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      order.first[me * kOwn + j] = before;
      if (before < sought && count[j] > kMostInBin) set_shared(&shared.members, 1);
      if (before < sought && before + count[j] >= sought) {
        shared.reached[0] = me * kOwn + j, shared.listed = before + count[j];
      }
      before += count[j];
    }
    all = static_cast<unsigned>(sums.all);
    if (me == 0 && all < sought) shared.listed = all;
    __syncthreads();
    full = shared.members != 0, last = static_cast<unsigned>(shared.reached[0]), listed = shared.listed;
  }
};

// store(place, key) of the best k of each(body)'s tokens, or of all, which `best` was found of, with no bin full.
template <class Each, class Store>
__device__ __forceinline__ void order_by_bins(const BestBins& best, int k, Each&& each, Store&& store) {
  OrderShared& order = order_shared();
  const auto me = static_cast<int>(select_thread());
  const auto sought = static_cast<unsigned>(k);
  each([&](const auto& token) {
    const unsigned bin = best.bins.of(token.value());
    if (bin <= best.last) order.sorted[add_shared(&order.first[bin], 1)] = token.key();
  });
  __syncthreads();

  // Bins end where the next ones began. Each token's place in its own.
#pragma unroll 1
  for (auto i = static_cast<unsigned>(me); i < best.listed; i += kSelectThreads) {
    const TokenKey key = order.sorted[i];
    const unsigned bin = best.bins.of(key_value(key)), behind = order.first[bin];
    unsigned place = bin == 0 ? 0 : order.first[bin - 1];
#pragma unroll 4
    for (unsigned other = place; other < behind; ++other) place += order.sorted[other] > key ? 1 : 0;
    if (place < sought) store(static_cast<int>(place), key);
  }
#pragma unroll 1
  for (auto i = best.listed + static_cast<unsigned>(me); i < sought; i += kSelectThreads) store(static_cast<int>(i), 0);
}

// The same of tokens of any values, for as many keys as there are places, k at least; 0 stands for the key of one that is not there.
template <class Each, class Store>
__device__ __forceinline__ void order_any(int k, long long tokens, int places, Each&& each, Store&& store) {
  TokenKey end = 1;
  if (tokens > places) end = find_end(0, 0, {static_cast<unsigned>(k), kAllMass}, false, each).key;
  TokenKey* const sorted = order_shared().sorted;
  SelectShared& shared = select_shared();
  const auto me = static_cast<int>(select_thread());
  __syncthreads();
  if (me == 0) shared.listed = 0;
  __syncthreads();
  each([&](const auto& token) {
    if (token.key() >= end) sorted[add_shared(&shared.listed, 1)] = token.key();
  });
  __syncthreads();

  // Bitonic, a power of two of them, zeros behind, the best first.
  const auto keys = static_cast<int>(shared.listed);
  int size = 2;
  while (size < keys || size < k) size *= 2;
#pragma unroll 1
  for (int i = keys + me; i < size; i += kSelectThreads) sorted[i] = 0;
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
  for (int j = me; j < k; j += kSelectThreads) store(j, sorted[j]);
}

}  // namespace tilewright
