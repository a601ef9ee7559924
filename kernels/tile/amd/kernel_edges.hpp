// SPDX-License-Identifier: MIT
// AMD GPUs have no programmatic edges: a kernel begins when those in front of it have ended.
#pragma once

namespace tilewright {

__device__ __forceinline__ void allow_next_kernel() {}
__device__ __forceinline__ void wait_for_previous_kernel() {}
__device__ __forceinline__ void take_over_from_previous_kernel() {}
__device__ __forceinline__ void fetch_ahead(const void*) {}

}  // namespace tilewright
