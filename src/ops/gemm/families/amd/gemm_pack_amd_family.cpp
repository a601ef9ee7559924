// SPDX-License-Identifier: MIT
#include "ops/gemm/families/amd/gemm_pack_amd_family.hpp"

#include "gemm/amd/gemm_pack_amd_args.hpp"
#include "ops/gemm/families/gemm_pack_family.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

bool is_amd(std::string_view target) {
  const ArchSpec* arch = find_arch(target);
  return arch != nullptr && arch->vendor == ArchVendor::kAmd;
}
std::string entry_of(const KernelKey&) { return "tw_gemm_pack_amd"; }
std::string source_of(const std::string& entry) {
  return gpu_instance_source(ArchVendor::kAmd, "gemm/amd/gemm_pack_amd.hpp", entry, "gemm_pack_amd", "GemmPackArgs",
                             kPackAmdThreads, 1);
}

const GemmPackFamily& family() {
  static const GemmPackFamily kFamily({"gemm_pack_amd", is_amd, is_amd, entry_of, source_of});
  return kFamily;
}

}  // namespace

const KernelFamily& gemm_pack_amd_family() { return family(); }

KernelKey gemm_pack_amd_key(std::string_view target) { return family().key(target); }

LaunchShape gemm_pack_amd_shape(int64_t panels) {
  LaunchShape shape;
  shape.grid = {static_cast<uint32_t>(panels), 1, 1};
  shape.threads = kPackAmdThreads;
  shape.shared_bytes = kPackAmdLdsBytes;
  return shape;
}

}  // namespace tilewright
