// SPDX-License-Identifier: MIT
// A token's logits of f32, a group a lane. Groups lie far from each other, so that a load of each lane's own takes a turn for each lane: neighbouring
// lanes load what lies side by side instead, and each takes its group's from shared memory.
#pragma once

#include "moe_routing/moe_routing_args.hpp"
#include "tile/gpu/block.hpp"
#include "tile/gpu/vector4.hpp"

namespace tilewright {

template <MoeRoutingGpuConfig kConfig>
__device__ __forceinline__ void load_exchanged(const char* row, int lane, float (&v)[kConfig.slots]) {
  constexpr int kLanes = kConfig.lanes, kLoads = kConfig.slots / 4;
  auto* const token = dynamic_shared() + threadIdx.x / kLanes * router_exchange_bytes(kConfig);
  // A place that nobody uses behind each lane's: reading lanes then have banks of their own.
  const auto at = [token](int owner, int load) {
    return reinterpret_cast<float*>(token + (owner * (kLoads + 1) + load) * 16);
  };
  Vector4<float> four[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    four[i] = load_vector4(reinterpret_cast<const float*>(row) + (i * kLanes + lane) * 4);
  }
  __syncwarp();  // the token before is read
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int number = i * kLanes + lane;
    store_vector4(at(number / kLoads, number % kLoads), four[i]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const Vector4<float> mine = load_vector4(static_cast<const float*>(at(lane, i)));
    v[4 * i] = mine.x, v[4 * i + 1] = mine.y, v[4 * i + 2] = mine.z, v[4 * i + 3] = mine.w;
  }
}

}  // namespace tilewright
