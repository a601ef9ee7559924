// SPDX-License-Identifier: MIT
// A CUDA device on a driver of the caller's choice; make_cuda_device() takes the system's.
#pragma once

#include <memory>

#include "device/cuda/driver/driver.hpp"
#include "device/device.hpp"

namespace tilewright::cuda {

// `driver` must outlive the device.
Result<std::unique_ptr<Device>> make_device(const Driver& driver, int index);

}  // namespace tilewright::cuda
