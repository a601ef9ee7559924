// SPDX-License-Identifier: MIT
// What HIP tells of a device, as a DeviceSpec.
#pragma once

#include <string>

#include "device/device.hpp"
#include "device/hip/driver/driver.hpp"

namespace tilewright::hip {

// The processor with its settings: "gfx942:sramecc+:xnack-".
Result<std::string> processor_of(const Driver& driver, int index);

// Part of the target that carries the marketing name; where HIP tells none that is known, the one with as many compute units and
// as much memory. Null when there is none, or no telling which.
const PartSpec* find_amd_part(const ArchSpec& arch, const std::string& name, int units, int64_t memory_bytes);

// The error says what the device lacks.
Result<DeviceSpec> read_device_spec(const Driver& driver, int index);

}  // namespace tilewright::hip
