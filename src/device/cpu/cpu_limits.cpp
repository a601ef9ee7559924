// SPDX-License-Identifier: MIT
#include "device/cpu/cpu_limits.hpp"

namespace tilewright {

Result<DeviceLimits> measure_cpu_limits(const DeviceSpec&, ThreadPool&, double) {
  return Status(StatusCode::kUnsupported, "cpu: limits are not measured yet");
}

}  // namespace tilewright
