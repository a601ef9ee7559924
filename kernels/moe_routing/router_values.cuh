// SPDX-License-Identifier: MIT
// What the choice is among as a lane of moe_routing_gpu holds it in f32, for a sieve: logits of f32, or scores.
#pragma once

#include "moe_routing/router_keys_gpu.cuh"

namespace tilewright {

template <MoeRoutingGpuConfig kConfig, class Lane>
class RouterValues {
 public:
  __device__ __forceinline__ explicit RouterValues(const Lane& lane) : lane_(lane) {}

  // The `few`-th largest of what is largest in each part; a group that is not chosen from has minus infinity alone.
  __device__ __forceinline__ bool bounds() {
    float own[kParts], best[kConfig.few];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      own[p] = lane_.v[p];
#pragma unroll
      for (int i = p + kParts; i < kConfig.slots; i += kParts) own[p] = at_least(own[p], lane_.v[i]);
      own[p] = lane_.open ? own[p] : kWorstLogit;
    }
    order_own(own);
    constexpr int kHalf = kConfig.lanes / 2;
    join_best<1, kHalf>(own, best, [](float x, unsigned distance) { return lane_xor(x, distance); });
    least_ = -kWorstLogit;
#pragma unroll
    for (int i = 0; i < kConfig.few; ++i) {
      least_ = at_most(least_, at_least(best[i], lane_xor(best[kConfig.few - 1 - i], kHalf)));
    }
    return least_ > kWorstLogit;
  }
  __device__ __forceinline__ unsigned mask() const {
    unsigned mine = 0;
#pragma unroll
    for (int i = 0; i < kConfig.slots; ++i) mine |= lane_.v[i] >= least_ ? 1u << i : 0;
    return lane_.open ? mine : 0;
  }
  __device__ __forceinline__ static int slot(int bit) { return bit; }
  __device__ __forceinline__ float value(int expert) const { return lane_.found_again(expert); }

 private:
  static constexpr int kParts = kConfig.sieve;

  const Lane& lane_;
  float least_ = kWorstLogit;
};

}  // namespace tilewright
