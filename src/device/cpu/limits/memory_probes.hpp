// SPDX-License-Identifier: MIT
// Loops that do nothing but read or copy memory, and how much memory they need to see past the caches.
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace tilewright {

// How a loop walks through memory. Which way is fastest depends on the machine's prefetchers and on how many cores read.
struct ReadPattern {
  int streams;    // parts that are read side by side
  bool prefetch;  // asks for the lines 1 KiB ahead
};
inline constexpr ReadPattern kReadPatterns[] = {{1, false}, {1, true}, {4, true}, {8, false}};

// Sizes are multiples of 4 KiB, addresses of 64 bytes.
struct MemoryProbe {
  void (*read)(const char* data, int64_t bytes, const ReadPattern& pattern);
  void (*copy)(char* to, const char* from, int64_t bytes);
};

// The widest that the device's target allows.
const MemoryProbe& memory_probe(const DeviceSpec& spec);

// The footprint at which kernels are timed cold (device/host_memory.hpp), as far as an eighth of the free memory goes and
// the budget in seconds; at least 64 MiB.
int64_t memory_probe_bytes(const DeviceSpec& spec, double budget_seconds);

}  // namespace tilewright
