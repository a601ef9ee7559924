// SPDX-License-Identifier: MIT
#include "device/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace tilewright {
namespace {

// A GPU's cache keeps some of what is read once; several times its size leaves nothing.
constexpr int64_t kGpuCaches = 8;

// The one number of a file; "max", or no such file, is none.
int64_t number_in(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : 0;
}

// What the control group (version 2, then 1) leaves; INT64_MAX without a limit.
int64_t control_group_rest() {
  constexpr const char* kFiles[][2] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  int64_t rest = INT64_MAX;
  for (const auto& [limit_file, usage_file] : kFiles) {
    if (const int64_t limit = number_in(limit_file); limit > 0) {
      rest = std::min(rest, std::max<int64_t>(0, limit - number_in(usage_file)));
    }
  }
  return rest;
}

}  // namespace

int64_t available_host_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    int64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return std::min(kib << 10, control_group_rest());
  }
  return 0;
}

ColdFootprint cold_footprint(const DeviceSpec& spec, double share) {
  ColdFootprint footprint;
  if (spec.emulated) return footprint;  // what is emulated has no caches
  const bool own_memory = spec.memory_bytes > 0;
  footprint.wanted =
      own_memory ? kGpuCaches * spec.l2_bytes : std::max({int64_t{1} << 30, 2 * spec.l3_bytes, 2 * spec.l2_bytes});
  footprint.bytes = footprint.wanted;
  if (const int64_t available = own_memory ? spec.memory_bytes : available_host_memory(); available > 0) {
    footprint.bytes = std::min(footprint.wanted, static_cast<int64_t>(static_cast<double>(available) * share));
  }
  return footprint;
}

}  // namespace tilewright
