// SPDX-License-Identifier: MIT
// Profiles of `prebuild`: the problems that a kind of work brings, and devices of targets that are not this machine's.
#pragma once

#include <string>
#include <vector>

#include "device/device.hpp"
#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

struct Profile {
  std::vector<NamedProblem> problems;
  bool every_candidate = false;  // not only the first choice of each problem
};

// "none", "inference", "training", "all".
std::vector<std::string> profile_names();
Result<Profile> profile_problems(const std::string& name);

// Devices of the target as the cost model sees them: this one when it is of that target, and others with the caches of
// the target's parts and several numbers of cores.
Result<std::vector<DeviceSpec>> devices_of_target(const std::string& target, const DeviceSpec& here);

}  // namespace tilewright::cli
