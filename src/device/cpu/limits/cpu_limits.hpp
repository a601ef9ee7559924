// SPDX-License-Identifier: MIT
// The measured limits of a CPU: arithmetic peaks, memory bandwidth, launch cost.
#pragma once

#include "device/cpu/thread_pool.hpp"
#include "device/device.hpp"

namespace tilewright {

// Takes about `budget_seconds`; at least one measurement of everything is made, however small the budget.
Result<DeviceLimits> measure_cpu_limits(const DeviceSpec& spec, ThreadPool& pool, double budget_seconds);

}  // namespace tilewright
