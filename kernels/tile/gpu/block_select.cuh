// SPDX-License-Identifier: MIT
// What a block finds together about tokens: the largest key, and where a choice ends among tokens that come in any order. Sums are of whole numbers,
// so that no order shows.
#pragma once

#include "tile/common/token_order.hpp"
#include "tile/gpu/atomics.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

using TokenKey = unsigned long long;

// Shared memory, behind what reduce_threads() takes.
struct SelectShared {
  TokenKey largest[kSelectThreads / kRowLanes];
  int reached[2];
  unsigned listed;
  unsigned count[kSelectBins], mass_low[kSelectBins], mass_high[kSelectBins];
  unsigned count_to[kSelectBins];
  unsigned long long mass_to[kSelectBins];
};
static_assert(kRowSharedBytes + sizeof(SelectShared) <= kSelectSharedBytes);
__device__ __forceinline__ SelectShared& select_shared() {
  return *reinterpret_cast<SelectShared*>(dynamic_shared() + kRowSharedBytes);
}

__device__ __forceinline__ unsigned lane_xor_bits(unsigned x, unsigned distance) {
  return __builtin_bit_cast(unsigned, lane_xor(__builtin_bit_cast(float, x), distance));
}
// The largest of all threads, in each of them.
__device__ __forceinline__ TokenKey largest_key(TokenKey key) {
#pragma unroll
  for (unsigned distance = 1; distance < kRowLanes; distance *= 2) {
    const TokenKey other = static_cast<TokenKey>(lane_xor_bits(static_cast<unsigned>(key >> 32), distance)) << 32 |
                           lane_xor_bits(static_cast<unsigned>(key), distance);
    key = other > key ? other : key;
  }
  SelectShared& shared = select_shared();
  __syncthreads();
  if (threadIdx.x % kRowLanes == 0) shared.largest[threadIdx.x / kRowLanes] = key;
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < kSelectThreads / kRowLanes; ++i) {
    key = shared.largest[i] > key ? shared.largest[i] : key;
  }
  return key;
}

// Sums of all bins up to each one, of thread `bin`'s count and mass; threads behind the last bin have none. Then the first bin where
// they reach each of the limits; kSelectBins = none does.
__device__ __forceinline__ void sum_bins(unsigned count, unsigned long long mass) {
  SelectShared& shared = select_shared();
  const unsigned bin = threadIdx.x;
  const bool there = bin < kSelectBins;
  __syncthreads();
  if (there) shared.count_to[bin] = count, shared.mass_to[bin] = mass;
  __syncthreads();
#pragma unroll 1
  for (unsigned distance = 1; distance < kSelectBins; distance *= 2) {
    const bool adds = there && bin >= distance;
    if (adds) count += shared.count_to[bin - distance], mass += shared.mass_to[bin - distance];
    __syncthreads();
    if (adds) shared.count_to[bin] = count, shared.mass_to[bin] = mass;
    __syncthreads();
  }
}
struct BinsReached {
  int of_count, of_mass;
  __device__ __forceinline__ int first() const { return of_count < of_mass ? of_count : of_mass; }
};
// `count` and `mass` stand before the first bin.
__device__ __forceinline__ BinsReached reach_bins(unsigned count, unsigned long long mass, const ChoiceLimits& limits) {
  SelectShared& shared = select_shared();
  const unsigned bin = threadIdx.x;
  __syncthreads();
  if (bin == 0) shared.reached[0] = shared.reached[1] = kSelectBins;
  __syncthreads();
  if (bin < kSelectBins) {
    const unsigned count_before = count + (bin == 0 ? 0 : shared.count_to[bin - 1]);
    const unsigned long long mass_before = mass + (bin == 0 ? 0 : shared.mass_to[bin - 1]);
    const bool counted = (bin == 0 || count_before < limits.count) && count + shared.count_to[bin] >= limits.count;
    const bool weighed = (bin == 0 || mass_before < limits.mass) && mass + shared.mass_to[bin] >= limits.mass;
    if (counted) shared.reached[0] = static_cast<int>(bin);
    if (weighed) shared.reached[1] = static_cast<int>(bin);
  }
  __syncthreads();
  return {shared.reached[0], shared.reached[1]};
}

// Where a choice ends: tokens of at least `key` belong to it; `mass` is what it has up to there.
struct ChoiceEnd {
  TokenKey key;
  unsigned long long mass;
};
// each(body) calls body(key, mass) for all candidates, in any order; before these stand `count` tokens with `mass`, less than the limits.
template <class Each>
__device__ __forceinline__ ChoiceEnd find_end(unsigned count, unsigned long long mass, const ChoiceLimits& limits,
                                              Each&& each) {
  SelectShared& shared = select_shared();
  // Digits begin where keys differ.
  TokenKey most = 0, inverse_least = 0;
  each([&](TokenKey key, unsigned long long) {
    most = key > most ? key : most;
    inverse_least = ~key > inverse_least ? ~key : inverse_least;
  });
  most = largest_key(most);
  const TokenKey differ = most ^ ~largest_key(inverse_least);
  int low = 0, bits = 8;
  while (low + 8 < 64 && differ >> (low + 8) != 0) ++low;
  TokenKey prefix = low + bits < 64 ? most >> (low + bits) : 0;
#pragma unroll 1
  while (true) {
    const unsigned bin = threadIdx.x, last = (1u << bits) - 1;
    __syncthreads();
    if (bin < kSelectBins) shared.count[bin] = shared.mass_low[bin] = shared.mass_high[bin] = 0;
    __syncthreads();
    // The best digit has the first bin.
    each([&](TokenKey key, unsigned long long its) {
      if (low + bits < 64 && key >> (low + bits) != prefix) return;
      const unsigned at = last - (static_cast<unsigned>(key >> low) & last);
      add_shared(&shared.count[at], 1);
      const auto more = static_cast<unsigned>(its);
      const unsigned before = add_shared(&shared.mass_low[at], more);
      const unsigned carry = before + more < before ? 1u : 0u;
      add_shared(&shared.mass_high[at], static_cast<unsigned>(its >> 32) + carry);
    });
    __syncthreads();
    const bool there = bin < kSelectBins;
    sum_bins(there ? shared.count[bin] : 0,
             there ? static_cast<unsigned long long>(shared.mass_high[bin]) << 32 | shared.mass_low[bin] : 0);
    const int end = reach_bins(count, mass, limits).first();
    if (end == kSelectBins) {  // all belong to it
      return {~largest_key(inverse_least), mass + shared.mass_to[kSelectBins - 1]};
    }
    prefix = prefix << bits | (last - static_cast<unsigned>(end));
    if (low == 0 || shared.count[end] == 1) return {prefix << low, mass + shared.mass_to[end]};
    if (end > 0) count += shared.count_to[end - 1], mass += shared.mass_to[end - 1];
    bits = low < 8 ? low : 8;
    low -= bits;
  }
}

}  // namespace tilewright
