// SPDX-License-Identifier: MIT
// Clock, power and temperature of a GPU, from the vendor's management library where that is installed.
#pragma once

#include <string>

#include "device/cuda/cuda_kernel.hpp"

namespace tilewright::cuda {

// Device::power_state(). Without the library only the highest clock that the driver tells: "max_clock=1980".
std::string power_state(const Place& place);

}  // namespace tilewright::cuda
