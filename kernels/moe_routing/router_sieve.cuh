// SPDX-License-Identifier: MIT
// A few of a token's experts, by four or eight lanes. A token is cut in parts: of what is largest in each of them the `few`-th bounds the chosen from
// below. What is no worse (of logits in no order ten or so where eight are chosen of sixteen parts) is listed in shared memory, and only that is put in order: no
// key is made for anything else. What the choice is among stays with its source (router_words.cuh, router_values.cuh).
#pragma once

#include "moe_routing/router_keys_gpu.cuh"
#include "tile/gpu/block.hpp"

namespace tilewright {

template <MoeRoutingGpuConfig kConfig>
class RouterSieve {
 public:
  using Keys = RouterKey<kConfig.wide>;
  using Key = typename Keys::Type;

  __device__ __forceinline__ explicit RouterSieve(int lane) : lane_(lane) {}

  // In lane j the keys of the j-th best, of the one as many as there are lanes behind it, and so on; behind `few` of them none. False, for all lanes
  // of the warp: of some token too many are as good as the bound, or it has none.
  //   source.bounds(): whether there is a bound; in all lanes of the token alike
  //   source.mask(): a bit for each slot that is as good
  //   source.slot(bit), source.value(expert)
  template <class Source, int kKept>
  __device__ __forceinline__ bool choose(Source&& source, Key (&keys)[kKept]) const {
    const bool bounded = source.bounds();
    unsigned mine = source.mask();
    const int count = __popc(mine);
    int before = count;
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const int more = __shfl_up_sync(0xFFFFFFFFu, before, distance);
      before += lane_ >= distance ? more : 0;
    }
    const int listed = __shfl_sync(0xFFFFFFFFu, before, static_cast<int>(threadIdx.x | (kLanes - 1)) % 32);
    if (__any_sync(0xFFFFFFFFu, listed > kRouterSieveListed || !bounded) != 0) return false;

    // A lane's bits by their numbers, lanes one behind another.
    unsigned char* const list =
        dynamic_shared() + router_list_offset(kConfig) + threadIdx.x / kLanes * kRouterSieveListed;
    unsigned char* place = list + before - count;
    __syncwarp();
    for (; mine != 0; ++place) {
      const int bit = 31 - __clz(static_cast<int>(mine));
      mine ^= 1u << bit;
      *place = static_cast<unsigned char>(lane_ * 32 + bit);
    }
    __syncwarp();
    if (__any_sync(0xFFFFFFFFu, listed > kRouterSieveListed / 2) != 0) {
      order_listed<kRouterSieveListed / kLanes>(source, list, listed, keys);
    } else {
      order_listed<kRouterSieveListed / kLanes / 2>(source, list, listed, keys);
    }
    return true;
  }

 private:
  static constexpr int kLanes = kConfig.lanes, kGroupLanes = kConfig.group_lanes;

  // Every lane has all its slots.
  __device__ __forceinline__ static int expert(int lane, int slot) {
    return (lane / kGroupLanes * kConfig.slots + slot / kRowPiece * kRowPiece) * kGroupLanes +
           lane % kGroupLanes * kRowPiece + slot % kRowPiece;
  }

  // Of what is listed, `kEach` of a lane.
  template <int kEach, class Source, int kKept>
  __device__ __forceinline__ void order_listed(const Source& source, const unsigned char* list, int listed,
                                               Key (&keys)[kKept]) const {
    Key own[kEach], best[kConfig.few];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int place = lane_ * kEach + i, number = place < listed ? list[place] : 0;
      const int one = expert(number / 32, source.slot(number % 32));
      own[i] = place < listed ? Keys::of(source.value(one), one) : Keys::kNone;
    }
    order_own(own);
    join_best<1, kLanes>(own, best, [](Key key, unsigned distance) { return Keys::exchange(key, distance); });
#pragma unroll
    for (int s = 0; s < kKept; ++s) {
      const int j = lane_ + s * kLanes;
      keys[s] = j < kConfig.few ? pick(best, j) : Keys::kNone;
    }
  }

  // By the bits of its number: comparisons with each number become a load from memory.
  template <int kCount>
  __device__ __forceinline__ static Key pick(const Key (&from)[kCount], int number) {
    if constexpr (kCount == 1) {
      return from[0];
    } else {
      Key half[kCount / 2];
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) half[i] = (number & kCount / 2) != 0 ? from[i + kCount / 2] : from[i];
      return pick(half, number);
    }
  }

  int lane_;
};

}  // namespace tilewright
