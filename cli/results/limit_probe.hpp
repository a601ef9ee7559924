// SPDX-License-Identifier: MIT
// The limits that times are reported against, probed several times over a run. Other work on the machine only makes a
// probe slower, so the best of each counts.
#pragma once

#include "device/device.hpp"
#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

class LimitProbe {
 public:
  explicit LimitProbe(Device& device) : device_(device) {}
  // Probes for `seconds`; a device that cannot says so once on stderr.
  void measure(double seconds);
  const DeviceLimits& limits() const { return limits_; }

 private:
  Device& device_;
  DeviceLimits limits_;
  bool refused_ = false;
};

// Says in a line on stderr when memory is too short to time the problems with cold weights.
void note_warm_weights(const std::vector<NamedProblem>& problems, const DeviceSpec& spec, int sides);

// The better of each number.
void merge_limits(const DeviceLimits& from, DeviceLimits& into);

}  // namespace tilewright::cli
