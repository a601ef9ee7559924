// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cpu/gemm_pack_cpu_family.hpp"

#include "ops/gemm/families/gemm_pack_family.hpp"

namespace tilewright {
namespace {

bool is_x86(std::string_view target) {
  const ArchSpec* arch = find_arch(target);
  return arch != nullptr && arch->vendor == ArchVendor::kX86;
}
// Baseline, AVX2 and AVX-512; targets above add no instruction that packing uses.
bool is_level(std::string_view target) { return target == "x86-64" || target == "x86-64-v3" || target == "x86-64-v4"; }
std::string entry_of(const KernelKey& key) { return "tw_gemm_pack_cpu_" + key.digest.hex(); }
std::string source_of(const std::string& entry) {
  return cpu_instance_source("gemm/cpu/gemm_pack_cpu.hpp", entry, "gemm_pack_cpu", "GemmPackArgs");
}

const GemmPackFamily& family() {
  static const GemmPackFamily kFamily({"gemm_pack_cpu", is_x86, is_level, entry_of, source_of});
  return kFamily;
}

}  // namespace

const KernelFamily& gemm_pack_cpu_family() { return family(); }

const KernelKey& gemm_pack_cpu_key(const DeviceSpec& device) {
  static const KernelKey kBaseline = family().key("x86-64"), kAvx2 = family().key("x86-64-v3"),
                         kAvx512 = family().key("x86-64-v4");
  if (runs_on("x86-64-v4", device.arch->target)) return kAvx512;
  return runs_on("x86-64-v3", device.arch->target) ? kAvx2 : kBaseline;
}

}  // namespace tilewright
