// SPDX-License-Identifier: MIT
// The measured limits of devices, for people and programs.
#pragma once

#include "device/device.hpp"
#include "output/table.hpp"

namespace tilewright::cli {

Table limit_table();
void add_limits(const DeviceSpec& spec, const DeviceLimits& limits, Table& table);

}  // namespace tilewright::cli
