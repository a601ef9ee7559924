// SPDX-License-Identifier: MIT
// What the 32 lanes of a warp do together, as grouped_sm90_schedule.hpp sees it.
#pragma once

namespace tilewright {

struct GroupedSm90Lanes {
  // A value of each lane: a thread holds its own.
  template <class T>
  struct Of {
    T own;
    __device__ __forceinline__ T& operator[](int) { return own; }
    __device__ __forceinline__ const T& operator[](int) const { return own; }
  };
  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  template <class Visit>
  __device__ __forceinline__ static void each(const Visit& visit) {
    visit(lane());
  }
  // x becomes the sum of the lanes in front; returns that of all.
  template <class T>
  __device__ __forceinline__ static T add_before(Of<T>& x) {
    T sum = x.own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const T other = __shfl_up_sync(0xFFFFFFFF, sum, step);
      if (lane() >= step) sum += other;
    }
    x.own = sum - x.own;
    return __shfl_sync(0xFFFFFFFF, sum, 31);
  }
  // The last lane where it holds; there is one.
  template <class Holds>
  __device__ __forceinline__ static int last_where(const Holds& holds) {
    return 31 - __clz(static_cast<int>(__ballot_sync(0xFFFFFFFF, holds(lane()))));
  }
  template <class T>
  __device__ __forceinline__ static T value(const Of<T>& x, int lane) {
    return __shfl_sync(0xFFFFFFFF, x.own, lane);
  }
  __device__ __forceinline__ static bool any(const Of<bool>& x) { return __any_sync(0xFFFFFFFF, x.own) != 0; }
};

}  // namespace tilewright
