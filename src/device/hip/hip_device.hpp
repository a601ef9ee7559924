// SPDX-License-Identifier: MIT
// A HIP device on a library of the caller's choice; make_hip_device() takes the system's.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "device/hip/driver/driver.hpp"

namespace tilewright::hip {

// `driver` must outlive the device.
Result<std::unique_ptr<Device>> make_device(const Driver& driver, int index);

}  // namespace tilewright::hip
