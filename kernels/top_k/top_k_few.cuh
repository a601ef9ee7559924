// SPDX-License-Identifier: MIT
// The best few of a block's tokens: some lanes of each warp have tokens that reach a value, which few others do; who does is listed, and
// ranked where an order is wanted. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/block_select.cuh"
#include "top_k/top_k_args.hpp"

namespace tilewright {

// The lanes' values, the largest in the first one (Batcher, Sorting Networks and Their Applications, AFIPS 1968).
__device__ __forceinline__ float sorted_lanes(float value) {
  const unsigned me = select_thread();
#pragma unroll
  for (unsigned run = 2; run <= kRowLanes; run *= 2) {
#pragma unroll
    for (unsigned apart = run / 2; apart > 0; apart /= 2) {
      const float other = lane_xor(value, apart);
      const bool falls = (me & run % kRowLanes) == 0, lower = (me & apart) == 0;
      value = falls == lower ? at_least(value, other) : at_most(value, other);
    }
  }
  return value;
}

// A value that the largest tokens of at least k threads reach; `largest` is this thread's. 2^warp_bits warps should have tokens in most of
// their lanes: where these are not k together, it is minus infinity.
__device__ __forceinline__ float reached_by_few(int k, int warp_bits, float largest) {
  SelectShared& shared = select_shared();
  const auto me = static_cast<int>(select_thread()), lane = me % kRowLanes;
  // Each warp names what so many of its lanes reach, k of three in four warps together: all warps would name what the poorest of them has.
  const int third = (k + 2) / 3, quarter_bits = warp_bits - 2;
  const int lanes =
      quarter_bits >= 0 ? (third + (1 << quarter_bits) - 1) >> quarter_bits : (k + warp_bits) >> warp_bits;
  const float sorted = sorted_lanes(largest);
  __syncthreads();
  if (lane == (lanes <= kRowLanes ? lanes - 1 : 0)) {
    shared.named[me / kRowLanes] = lanes <= kRowLanes ? sorted : kMinusInfinity;
  }
  __syncthreads();
  // The last one of as many warps as that takes.
  if (me < kSelectWarps) {
    const float own = shared.named[me];
    int before = 0;
#pragma unroll
    for (int i = 0; i < kSelectWarps; ++i) {
      const float other = shared.named[i];
      before += other > own || (other == own && i < me) ? 1 : 0;
    }
    if (before == (k + lanes - 1) / lanes - 1) shared.enough = own, shared.members = 0;
  }
  __syncthreads();
  return shared.enough;
}

// The power of two of these warps, or of all.
__device__ __forceinline__ int some_warp_bits(int warps) {
  int bits = 0;
#pragma unroll
  for (int all = 2; all <= kSelectWarps; all *= 2) bits += warps >= all ? 1 : 0;
  return bits;
}

// Lists the keys of those tokens that belongs(token) names, in any order: how many there are, which may be more than are listed.
template <class Each, class Belongs>
__device__ __forceinline__ int list_members(Each&& each, Belongs&& belongs) {
  SelectShared& shared = select_shared();
  unsigned count = 0;
  each([&](const auto& token) { count += belongs(token) ? 1 : 0; });
  if (count > 0) {
    unsigned at = add_shared(&shared.members, count);
    each([&](const auto& token) {
      if (belongs(token) && at < kSelectThreads) shared.member[at++] = token.key();
    });
  }
  __syncthreads();
  return static_cast<int>(shared.members);
}

// Lists the best k and some others of each(body)'s tokens: how many, or -1 where that is more than `most`, or nothing tells them apart. What
// each(body) has besides them is minus infinity, or NaN.
template <class Each>
__device__ __forceinline__ int list_few(int k, int warp_bits, int most, Each&& each) {
  float largest = kMinusInfinity;
  each([&](const auto& token) { largest = number_between(token.value(), largest, -kMinusInfinity); });
  const float enough = reached_by_few(k, warp_bits, largest);
  if (enough == kMinusInfinity) return -1;
  const int listed = list_members(each, [&](const auto& token) { return token.value() >= enough; });
  return listed <= most ? listed : -1;
}

// store(place, key) of the best k that are listed, in order: neighbours share what stands before one.
template <class Store>
__device__ __forceinline__ void rank_few(int k, int listed, Store&& store) {
  const SelectShared& shared = select_shared();
  const auto me = static_cast<int>(select_thread());
  int share = 1;
  while (share < kRowLanes / 2 && listed * share * 2 <= kSelectThreads) share *= 2;
  // Whole warps leave.
  if (me / kRowLanes * kRowLanes >= listed * share) return;
  const int which = me / share;
  const TokenKey own = shared.member[which < listed ? which : 0];
  unsigned before = 0;
#pragma unroll 4
  for (int i = me % share; i < listed; i += share) before += shared.member[i] > own ? 1 : 0;
#pragma unroll 1
  for (int distance = 1; distance < share; distance *= 2)
    before += lane_xor_bits(before, static_cast<unsigned>(distance));
  const auto place = static_cast<int>(before);
  if (which < listed && me % share == 0 && place < k) store(place, own);
}

}  // namespace tilewright
