// SPDX-License-Identifier: MIT
// Loops that do nothing but read or copy memory, and how much memory they need to see past the caches.
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace tilewright {

struct MemoryProbe {
  void (*read)(const char* data, int64_t bytes);            // a multiple of 256 bytes, aligned to 64
  void (*copy)(char* to, const char* from, int64_t bytes);  // the same
};

// The widest that the device's target allows.
const MemoryProbe& memory_probe(const DeviceSpec& spec);

// 1 GiB: more than any last-level cache that a process sees. Less when that is over an eighth of the memory (or of
// the process's memory limit), over half of what is free, or when the budget (seconds) is under one second; at least 64 MiB.
int64_t memory_probe_bytes(double budget_seconds);

}  // namespace tilewright
