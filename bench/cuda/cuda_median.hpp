// SPDX-License-Identifier: MIT
// One time out of several bursts of calls on a GPU.
#pragma once

#include <algorithm>
#include <vector>

#include "device/device.hpp"

namespace tilewright {

// The median of nine bursts of `calls` calls: microseconds a call.
inline Result<double> median_burst(Device& device, const TurnedCall& call, int calls) {
  Result<std::unique_ptr<Burst>> burst = device.make_burst(call, 0, calls);
  if (!burst) return burst.status();
  std::vector<double> times(9);
  for (double& time : times) {
    const Result<double> us = (*burst)->run();
    if (!us) return us.status();
    time = *us;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace tilewright
