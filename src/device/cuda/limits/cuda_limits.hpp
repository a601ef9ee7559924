// SPDX-License-Identifier: MIT
// What a GPU does at best: reading and copying memory, an empty launch, the same in a graph, its tensor cores.
#pragma once

#include "device/cuda/cuda_kernel.hpp"

namespace tilewright::cuda {

// Takes up to 8 GiB of the device's memory for the time.
Result<DeviceLimits> measure_cuda_limits(Device& device, const Place& place, double budget_seconds,
                                         const ProbeCompiler& compile);

}  // namespace tilewright::cuda
