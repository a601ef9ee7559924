// SPDX-License-Identifier: MIT
// A function of the library itself, run by every unit of a CPU: no key, nothing compiled, nothing cached.
#pragma once

#include <cstddef>
#include <span>

#include "device/device.hpp"

namespace tilewright {

// Calls entry(args, unit, units) on each unit of `cpu` and waits. `name` is what profiles show.
Status run_on_units(Device& cpu, const char* name, CpuEntry entry, std::span<const std::byte> args);

}  // namespace tilewright
