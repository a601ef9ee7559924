// SPDX-License-Identifier: MIT
// What the tensor cores of a GPU do at best, on random data: in a short burst of a rested chip, and sustained, when the
// power limit has lowered the clock.
#pragma once

#include "device/device.hpp"

namespace tilewright::cuda {

// One peak each for bf16, OCP e4m3 and i8, of those that the target's best matrix instruction takes. Takes about
// `seconds`; a short time also shortens the rests, and bursts then count as what they are.
Status measure_peaks(Device& device, double seconds, const ProbeCompiler& compile,
                     std::vector<DeviceLimits::Peak>& peaks);

}  // namespace tilewright::cuda
