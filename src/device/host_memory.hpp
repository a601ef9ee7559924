// SPDX-License-Identifier: MIT
// How much memory the process may still take, and how much must be cycled through before a cache stops helping.
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace tilewright {

// What the system would give without swapping, and what the process's control group leaves; 0 = not known.
int64_t available_host_memory();

// Data that is read in turn comes from memory when it exceeds what the last-level cache keeps: on a CPU 1 GiB, or twice
// the last-level cache where that is more; on a GPU eight times its cache. `share` of the free memory (a GPU's own: of all)
// is the most that is taken.
struct ColdFootprint {
  int64_t wanted = 0;
  int64_t bytes = 0;  // what memory allows of it
  bool cold() const { return bytes >= wanted; }
};
ColdFootprint cold_footprint(const DeviceSpec& spec, double share);

}  // namespace tilewright
