// SPDX-License-Identifier: MIT
// The steps of CPU detection that tests look at one by one; cpu_info() puts them together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// The x86 target with the most features, all of which are there.
std::string_view best_cpu_target(const std::function<bool(std::string_view feature)>& has);

// What TILEWRIGHT_CPU_TARGET makes of the detected target: the requested one when the CPU runs it, else the detected
// one, with the reason in `problem`.
std::string_view lowered_cpu_target(std::string_view detected, const std::optional<std::string>& requested,
                                    std::string& problem);

// "intel-6-143" from cpuid's vendor text and leaf 1 eax.
std::string cpu_part_id(std::string_view vendor, uint32_t signature);

}  // namespace tilewright
