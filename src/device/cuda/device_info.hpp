// SPDX-License-Identifier: MIT
// What the driver tells of a device, as a DeviceSpec.
#pragma once

#include "device/cuda/driver/driver.hpp"
#include "device/device.hpp"

namespace tilewright::cuda {

// The target whose code a compute capability runs best; "" when there is none.
std::string_view target_of_capability(int major, int minor);

// The error says what the device lacks.
Result<DeviceSpec> read_device_spec(const Driver& driver, int index);

}  // namespace tilewright::cuda
