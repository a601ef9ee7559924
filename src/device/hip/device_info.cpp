// SPDX-License-Identifier: MIT
#include "device/hip/device_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "device/gpu/gpu_device.hpp"

namespace tilewright::hip {
namespace {

// HIP tells a little less memory than a part is sold with.
constexpr double kMemoryTolerance = 0.07;

std::string lower(std::string_view text) {
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return std::tolower(c); });
  return low;
}

bool has_memory(const PartSpec& part, int64_t bytes) {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  return part.memory_gib == 0 || bytes == 0 || std::abs(gib - part.memory_gib) <= kMemoryTolerance * part.memory_gib;
}

// Of a GPU with waves of 32, HIP counts pairs of compute units unless its user told it otherwise.
int compute_units(const ArchSpec& arch, const std::string& name, int counted, int64_t memory_bytes) {
  if (arch.wave_size != 32) return counted;
  const PartSpec* const part = find_amd_part(arch, name, counted, memory_bytes);
  return part != nullptr && part->units == counted ? counted : 2 * counted;
}

}  // namespace

Result<std::string> processor_of(const Driver& driver, int index) {
  std::array<char, kPropertyBytes> properties{};
  const bool current = driver.hipGetDevicePropertiesR0600 != nullptr;
  const gpu::Code code = current ? driver.hipGetDevicePropertiesR0600(properties.data(), index)
                                 : driver.hipGetDeviceProperties(properties.data(), index);
  if (Status s = check(driver, code, fmt::format("hip:{}: properties", index)); !s) return s;
  const char* const name = properties.data() + (current ? kArchNameAt : kArchNameAtOld);
  return std::string(name, strnlen(name, kArchNameBytes));
}

const PartSpec* find_amd_part(const ArchSpec& arch, const std::string& name, int units, int64_t memory_bytes) {
  const std::string low = lower(name);
  for (const PartSpec& part : arch.parts) {
    for (const std::string_view id : part.ids) {
      if (lower(id) == low) return &part;  // "PRO" and "Pro" are both seen
    }
  }
  std::vector<const PartSpec*> like, named;
  for (const PartSpec& part : arch.parts) {
    if (part.units != units || !has_memory(part, memory_bytes)) continue;
    like.push_back(&part);
    if (low.find(part.name) != std::string::npos) named.push_back(&part);  // "AMD Instinct MI250X / MI250"
  }
  if (like.size() == 1) return like.front();
  return named.size() == 1 ? named.front() : nullptr;
}

Result<DeviceSpec> read_device_spec(const Driver& driver, int index) {
  const std::string where = fmt::format("hip:{}", index);
  std::array<char, 256> name{};
  if (Status s = check(driver, driver.hipDeviceGetName(name.data(), name.size() - 1, index), where); !s) return s;
  const Result<std::string> processor = processor_of(driver, index);
  if (!processor) return processor.status();

  DeviceSpec spec;
  spec.id = {DeviceKind::kHip, index};
  spec.name = name.data();
  spec.arch = find_arch(processor->substr(0, processor->find(':')));
  if (spec.arch == nullptr || spec.arch->vendor != ArchVendor::kAmd) {
    std::string known;
    for (const ArchSpec& arch : arch_specs()) {
      if (arch.vendor == ArchVendor::kAmd) known += fmt::format("{}{}", known.empty() ? "" : ", ", arch.target);
    }
    return Status(StatusCode::kUnsupported, fmt::format("{}: '{}' is a '{}', for which there is no target; targets: {}",
                                                        where, spec.name, *processor, known));
  }
  for (const ArchSpec* arch = spec.arch; arch != nullptr; arch = find_arch(arch->base)) spec.targets.push_back(arch);

  Status failed;
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    Status s = check(driver, driver.hipDeviceGetAttribute(&value, which, index), where);
    if (!s && failed.ok()) failed = s;
    return value;
  };
  const int counted = attribute(DeviceAttribute::kMultiprocessorCount);
  spec.l1_bytes = attribute(DeviceAttribute::kSharedPerMultiprocessor);
  spec.l2_bytes = attribute(DeviceAttribute::kL2CacheSize);
  spec.clock_ghz = attribute(DeviceAttribute::kClockRate) * 1e-6;
  if (!failed) return failed;
  size_t memory = 0;
  if (Status s = check(driver, driver.hipDeviceTotalMem(&memory, index), where); !s) return s;
  spec.memory_bytes = static_cast<int64_t>(memory);
  spec.units = compute_units(*spec.arch, spec.name, counted, spec.memory_bytes);
  // HIP tells the L2 cache of one die; the whole device's, and the cache behind it, stand in the table.
  const PartSpec* const part = find_amd_part(*spec.arch, spec.name, spec.units, spec.memory_bytes);
  spec.part = part != nullptr ? std::string(part->name) : gpu::part_of_name(spec.name);
  if (part != nullptr) {
    spec.l2_bytes = std::max(spec.l2_bytes, part->l2_bytes);
    spec.l3_bytes = part->last_level_bytes;
  }
  spec.driver = fmt::format("hip-{}", driver.version_text());
  spec.emulated = driver.emulated;
  return spec;
}

}  // namespace tilewright::hip
