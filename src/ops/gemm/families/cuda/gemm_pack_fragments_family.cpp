// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cuda/gemm_pack_fragments_family.hpp"

#include "gemm/gemm_packed_fragments.hpp"
#include "ops/gemm/families/gemm_pack_family.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

bool packs_fragments(std::string_view target) {
  const ArchSpec* arch = find_arch(target);
  return arch != nullptr && arch->vendor == ArchVendor::kNvidia;
}
// Where a kernel of its own reads them.
bool carries_fragments(std::string_view target) { return target == "sm_90a"; }
std::string fragments_entry(const KernelKey&) { return "tw_gemm_pack_fragments"; }
std::string fragments_source(const std::string& entry) {
  return gpu_instance_source(ArchVendor::kNvidia, "gemm/gpu/gemm_pack_fragments.cuh", entry, "gemm_pack_fragments",
                             "GemmPackArgs", kPackFragmentsThreads, 1);
}

const GemmPackFamily& fragments_family() {
  static const GemmPackFamily kFamily(
      {"gemm_pack_fragments", packs_fragments, carries_fragments, fragments_entry, fragments_source});
  return kFamily;
}

}  // namespace

const KernelFamily& gemm_pack_fragments_family() { return fragments_family(); }

KernelKey gemm_pack_fragments_key(std::string_view target) { return fragments_family().key(target); }

LaunchShape gemm_pack_fragments_shape(int64_t panels) {
  LaunchShape shape;
  shape.grid = {static_cast<uint32_t>(panels), 1, 1};
  shape.threads = kPackFragmentsThreads;
  return shape;
}

}  // namespace tilewright
