// SPDX-License-Identifier: MIT
// Detection of the running CPU: vendor, part, target, cores, caches.
#include <cstring>

#include "arch/arch_spec.hpp"
#include "arch/cpu_cores.hpp"
#include "arch/cpu_detect.hpp"
#include "arch/cpuid.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"

namespace tilewright {

namespace {

void append_registers(std::string& text, std::initializer_list<uint32_t> registers) {
  for (const uint32_t value : registers) {
    char bytes[4];
    std::memcpy(bytes, &value, sizeof(bytes));
    text.append(bytes, sizeof(bytes));
  }
}

std::string vendor_text() {
  const auto r = cpuid(0, 0);
  std::string text;
  append_registers(text, {r[1], r[3], r[2]});
  return text.c_str();  // ends at the first zero byte
}

std::string brand_text() {
  std::string text;
  for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const auto r = cpuid(leaf, 0);
    append_registers(text, {r[0], r[1], r[2], r[3]});
  }
  text = text.c_str();
  text.erase(0, text.find_first_not_of(' '));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// Leaf 4 (Intel) and 0x8000001D (AMD) describe one cache a subleaf, in the same fields.
void read_caches(CpuInfo& info) {
  const uint32_t leaf = info.vendor == "AuthenticAMD" || info.vendor == "HygonGenuine" ? 0x8000001D : 4;
  for (uint32_t subleaf = 0; subleaf < 16; ++subleaf) {
    const auto r = cpuid(leaf, subleaf);
    const uint32_t type = r[0] & 31;  // 1 data, 2 instructions, 3 unified
    if (type == 0) break;
    const uint32_t level = r[0] >> 5 & 7;
    const int64_t ways = (r[1] >> 22) + 1;
    const int64_t partitions = (r[1] >> 12 & 0x3FF) + 1;
    const int64_t line = (r[1] & 0xFFF) + 1;
    const int64_t bytes = ways * partitions * line * (static_cast<int64_t>(r[2]) + 1);
    if (level == 1 && type == 1) info.l1d_bytes = bytes;
    if (level == 2 && type != 2) info.l2_bytes = bytes;
    if (level == 3 && type != 2) info.l3_bytes = bytes;
  }
}

CpuInfo detect() {
  CpuInfo info;
  info.vendor = vendor_text();
  info.brand = brand_text();
  const std::string id = cpu_part_id(info.vendor, cpuid(1, 0)[0]);
  const PartSpec* const part = find_part(id);
  info.part = part != nullptr ? std::string(part->name) : id;
  info.cores = usable_cores();
  read_caches(info);

  const std::string_view detected = best_cpu_target(
      [](std::string_view feature) { return cpu_has(feature) && (!feature.starts_with("amx_") || request_amx()); });
  std::string problem;
  info.target = lowered_cpu_target(detected, environment("TILEWRIGHT_CPU_TARGET"), problem);
  if (!problem.empty()) log(LogLevel::kWarn, "arch", "{}", problem);
  log(LogLevel::kInfo, "arch", "cpu '{}' part {} target {} cores {}", info.brand, info.part,
      info.target.empty() ? "none" : info.target, info.cores);
  return info;
}

}  // namespace

std::string_view best_cpu_target(const std::function<bool(std::string_view feature)>& has) {
  const ArchSpec* best = nullptr;
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor != ArchVendor::kX86) continue;
    bool runs = true;
    for (const std::string_view feature : arch.features) runs = runs && has(feature);
    // Features are inherited, so more of them means further down the chain.
    if (runs && (best == nullptr || arch.features.size() > best->features.size())) best = &arch;
  }
  return best == nullptr ? std::string_view() : best->target;
}

std::string_view lowered_cpu_target(std::string_view detected, const std::optional<std::string>& requested,
                                    std::string& problem) {
  problem.clear();
  if (!requested) return detected;
  const ArchSpec* const arch = find_arch(*requested);
  if (arch != nullptr && runs_on(arch->target, detected)) return arch->target;
  std::string allowed;
  for (const ArchSpec* base = find_arch(detected); base != nullptr; base = find_arch(base->base)) {
    allowed += allowed.empty() ? "" : ", ";
    allowed += base->target;
  }
  problem = "TILEWRIGHT_CPU_TARGET='" + *requested +
            "' is not a target that this CPU runs; allowed: " + (allowed.empty() ? "none" : allowed) + "; ignored";
  return detected;
}

std::string cpu_part_id(std::string_view vendor, uint32_t signature) {
  const uint32_t base_family = signature >> 8 & 15;
  const uint32_t family = base_family == 15 ? base_family + (signature >> 20 & 255) : base_family;
  const uint32_t extended_model = base_family == 6 || base_family == 15 ? signature >> 16 & 15 : 0;
  const uint32_t model = (signature >> 4 & 15) | extended_model << 4;
  const std::string_view name = vendor == "GenuineIntel"   ? "intel"
                                : vendor == "AuthenticAMD" ? "amd"
                                : vendor == "HygonGenuine" ? "hygon"
                                                           : "cpu";
  return fmt::format("{}-{}-{}", name, family, model);
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

}  // namespace tilewright
