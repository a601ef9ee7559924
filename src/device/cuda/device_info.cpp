// SPDX-License-Identifier: MIT
#include "device/cuda/device_info.hpp"

#include <fmt/format.h>

#include <array>

#include "device/gpu/gpu_device.hpp"

namespace tilewright::cuda {

std::string_view target_of_capability(int major, int minor) {
  // Code for a capability runs on later ones of its major version; sm_90a is code for 9.0 alone.
  if (major == 8) return "sm_80";
  if (major == 9 && minor == 0) return "sm_90a";
  return "";
}

Result<DeviceSpec> read_device_spec(const Driver& driver, int index) {
  const std::string where = fmt::format("cuda:{}", index);
  CuDevice device = 0;
  if (Status s = check(driver, driver.cuDeviceGet(&device, index), where); !s) return s;
  std::array<char, 256> name{};
  if (Status s = check(driver, driver.cuDeviceGetName(name.data(), name.size() - 1, device), where); !s) return s;

  Status failed;
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    Status s = check(driver, driver.cuDeviceGetAttribute(&value, which, device), where);
    if (!s && failed.ok()) failed = s;
    return value;
  };
  const int major = attribute(DeviceAttribute::kCapabilityMajor), minor = attribute(DeviceAttribute::kCapabilityMinor);

  DeviceSpec spec;
  spec.id = {DeviceKind::kCuda, index};
  spec.name = name.data();
  spec.part = gpu::part_of_name(spec.name);
  spec.arch = find_arch(target_of_capability(major, minor));
  for (const ArchSpec* arch = spec.arch; arch != nullptr; arch = find_arch(arch->base)) spec.targets.push_back(arch);
  spec.units = attribute(DeviceAttribute::kMultiprocessorCount);
  spec.l1_bytes = attribute(DeviceAttribute::kSharedPerMultiprocessor);
  spec.l2_bytes = attribute(DeviceAttribute::kL2CacheSize);
  spec.clock_ghz = attribute(DeviceAttribute::kClockRate) * 1e-6;
  if (!failed) return failed;
  size_t memory = 0;
  if (Status s = check(driver, driver.cuDeviceTotalMem_v2(&memory, device), where); !s) return s;
  spec.memory_bytes = static_cast<int64_t>(memory);
  spec.driver = fmt::format("cuda-{}.{}", driver.version / 1000, driver.version % 1000 / 10);
  if (spec.arch == nullptr) {
    std::string known;
    for (const ArchSpec& arch : arch_specs()) {
      if (arch.vendor == ArchVendor::kNvidia) known += fmt::format("{}{}", known.empty() ? "" : ", ", arch.target);
    }
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: '{}' has compute capability {}.{}, for which there is no target; targets: {}", where,
                              spec.name, major, minor, known));
  }
  return spec;
}

}  // namespace tilewright::cuda
