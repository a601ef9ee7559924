// SPDX-License-Identifier: MIT
// Keys of moe_routing_gpu, which hold a value and its expert, and networks that order a few of them.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

inline constexpr float kWorstLogit = __builtin_bit_cast(float, 0xFF800000u);  // minus infinity

// Larger ones are better: the value as a number of two's complement, where zeros of both signs are equal, above what remains of the
// expert's number. kNone is worse than any value's, also when an expert's number is taken off.
template <bool kWide>
struct RouterKey {
  using Type = int;
  static constexpr int kNone = -0x7FFF0000;
  static constexpr int kLast = kMostExperts - 1;  // bits that values of 16 bits leave as floats
  __device__ __forceinline__ static int of(float value, int expert) { return ordered(value) + (kLast - expert); }
  __device__ __forceinline__ static int expert(int key) { return kLast - (key & kLast); }
  __device__ __forceinline__ static float value(int key) { return unordered(key & ~kLast); }
  __device__ __forceinline__ static int ordered(float value) {
    const int bits = __builtin_bit_cast(int, value), sign = bits >> 31;
    return ((bits & 0x7FFFFFFF) ^ sign) - sign;
  }
  __device__ __forceinline__ static float unordered(int number) {
    const int sign = number >> 31;
    return __builtin_bit_cast(float, ((number ^ sign) - sign) | (sign & static_cast<int>(0x80000000u)));
  }
  __device__ __forceinline__ static int exchange(int key, unsigned distance) {
    return __builtin_bit_cast(int, lane_xor(__builtin_bit_cast(float, key), distance));
  }
};
template <>
struct RouterKey<true> {
  using Type = long long;
  static constexpr long long kNone = -0x7FFF0000LL * 0x100000000LL;
  __device__ __forceinline__ static long long of(float value, int expert) {
    return static_cast<long long>(static_cast<unsigned long long>(RouterKey<false>::ordered(value)) << 32 |
                                  (0xFFFFu - static_cast<unsigned>(expert)));
  }
  __device__ __forceinline__ static int expert(long long key) { return 0xFFFF - static_cast<int>(key & 0xFFFF); }
  __device__ __forceinline__ static float value(long long key) {
    return RouterKey<false>::unordered(static_cast<int>(key >> 32));
  }
  __device__ __forceinline__ static long long exchange(long long key, unsigned distance) {
    const auto high = static_cast<unsigned>(RouterKey<false>::exchange(static_cast<int>(key >> 32), distance));
    const auto low = static_cast<unsigned>(RouterKey<false>::exchange(static_cast<int>(key), distance));
    return static_cast<long long>(static_cast<unsigned long long>(high) << 32 | low);
  }
};

// The better one first.
template <class Key>
__device__ __forceinline__ void order(Key& a, Key& b) {
  const Key better = a > b ? a : b, other = a > b ? b : a;
  a = better, b = other;
}
__device__ __forceinline__ void order(float& a, float& b) {
  const float better = at_least(a, b), other = at_most(a, b);
  a = better, b = other;
}
__device__ __forceinline__ float better_of(float a, float b) { return at_least(a, b); }
template <class Key>
__device__ __forceinline__ Key better_of(Key a, Key b) {
  return a > b ? a : b;
}
// Four in order.
template <class Key>
__device__ __forceinline__ void order_four(Key (&k)[4]) {
  order(k[0], k[1]), order(k[2], k[3]);
  order(k[0], k[2]), order(k[1], k[3]);
  order(k[1], k[2]);
}
// Keys that fall and then rise, or the other way round, in order.
template <int kCount, class Key>
__device__ __forceinline__ void order_turned(Key (&k)[kCount]) {
#pragma unroll
  for (int distance = kCount / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if ((i & distance) == 0) order(k[i], k[i + distance]);
    }
  }
}
// The best of both, as many, in order.
template <int kMost, class Key>
__device__ __forceinline__ void merge_best(Key (&best)[kMost], const Key (&more)[kMost]) {
#pragma unroll
  for (int i = 0; i < kMost; ++i) best[i] = better_of(best[i], more[kMost - 1 - i]);
  order_turned(best);
}
// All of both in order.
template <int kCount, class Key>
__device__ __forceinline__ void merge_all(const Key (&a)[kCount], const Key (&b)[kCount], Key (&all)[2 * kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) all[i] = a[i], all[kCount + i] = b[kCount - 1 - i];
  order_turned(all);
}
// Eight in order, by Batcher's network.
template <class Key>
__device__ __forceinline__ void order_eight(Key (&k)[8]) {
  order(k[0], k[1]), order(k[2], k[3]), order(k[4], k[5]), order(k[6], k[7]);
  order(k[0], k[2]), order(k[1], k[3]), order(k[4], k[6]), order(k[5], k[7]);
  order(k[1], k[2]), order(k[5], k[6]);
  order(k[0], k[4]), order(k[1], k[5]), order(k[2], k[6]), order(k[3], k[7]);
  order(k[2], k[4]), order(k[3], k[5]);
  order(k[1], k[2]), order(k[3], k[4]), order(k[5], k[6]);
}

// Two, four or eight in order.
template <int kCount, class Key>
__device__ __forceinline__ void order_own(Key (&k)[kCount]) {
  static_assert(kCount == 2 || kCount == 4 || kCount == 8);
  if constexpr (kCount == 8) {
    order_eight(k);
  } else if constexpr (kCount == 4) {
    order_four(k);
  } else {
    order(k[0], k[1]);
  }
}
// The best of kLanes lanes in each of them, in order, from those in order of kDistance neighbours. exchange(x, distance): another lane's x.
template <int kDistance, int kLanes, int kCount, int kMost, class Key, class Exchange>
__device__ __forceinline__ void join_best(Key (&own)[kCount], Key (&best)[kMost], Exchange&& exchange) {
  static_assert(kCount <= kMost);
  if constexpr (kDistance == kLanes) {
    static_assert(kCount == kMost);
#pragma unroll
    for (int i = 0; i < kCount; ++i) best[i] = own[i];
  } else {
    Key other[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) other[i] = exchange(own[i], kDistance);
    if constexpr (kCount == kMost) {
      merge_best(own, other);
      join_best<2 * kDistance, kLanes>(own, best, exchange);
    } else {
      Key both[2 * kCount];
      merge_all(own, other, both);
      join_best<2 * kDistance, kLanes>(both, best, exchange);
    }
  }
}

}  // namespace tilewright
