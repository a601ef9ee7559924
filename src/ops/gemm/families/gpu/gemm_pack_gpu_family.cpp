// SPDX-License-Identifier: MIT
#include "ops/gemm/families/gpu/gemm_pack_gpu_family.hpp"

#include <fmt/format.h>

#include "gemm/amd/gemm_pack_amd_args.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "ops/gemm/families/gemm_pack_family.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

struct PackKernel {
  ArchVendor vendor;
  const char *name, *header;
  int threads, shared_bytes;
  std::string_view reader;  // the only target that has a kernel of its own to read them; none named: all do
};
constexpr PackKernel kPackAmd{ArchVendor::kAmd, "gemm_pack_amd",  "gemm/amd/gemm_pack_amd.hpp",
                              kPackAmdThreads,  kPackAmdLdsBytes, ""};
constexpr PackKernel kPackFragments{
    ArchVendor::kNvidia, "gemm_pack_fragments", "gemm/gpu/gemm_pack_fragments.cuh", kPackFragmentsThreads, 0, "sm_90a"};

template <const PackKernel& kKernel>
const GemmPackFamily& family_of() {
  static const GemmPackFamily kFamily(
      {kKernel.name,
       [](std::string_view target) {
         const ArchSpec* arch = find_arch(target);
         return arch != nullptr && arch->vendor == kKernel.vendor;
       },
       [](std::string_view target) { return kKernel.reader.empty() || target == kKernel.reader; },
       [](const KernelKey&) { return fmt::format("tw_{}", kKernel.name); },
       [](const std::string& entry) {
         return gpu_instance_source(kKernel.vendor, kKernel.header, entry, kKernel.name, "GemmPackArgs",
                                    kKernel.threads, 1);
       }});
  return kFamily;
}
template <const PackKernel& kKernel>
const GpuPacker& packer_of() {
  static const GpuPacker kPacker{family_of<kKernel>(),
                                 [](std::string_view target) { return family_of<kKernel>().key(target); },
                                 kKernel.threads, kKernel.shared_bytes};
  return kPacker;
}

}  // namespace

LaunchShape GpuPacker::shape(int64_t panels) const {
  LaunchShape shape;
  shape.grid = {static_cast<uint32_t>(panels), 1, 1};
  shape.threads = threads;
  shape.shared_bytes = shared_bytes;
  return shape;
}

const GpuPacker& gemm_pack_amd() { return packer_of<kPackAmd>(); }
const GpuPacker& gemm_pack_fragments() { return packer_of<kPackFragments>(); }
const GpuPacker& gpu_packer(ArchVendor vendor) {
  return vendor == ArchVendor::kNvidia ? gemm_pack_fragments() : gemm_pack_amd();
}

}  // namespace tilewright
