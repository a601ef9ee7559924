// SPDX-License-Identifier: MIT
// The kernels that pack weights on GPUs, one a vendor: always built, typed at run time.
#pragma once

#include <string_view>

#include "dispatch/registry/family.hpp"

namespace tilewright {

struct GpuPacker {
  const KernelFamily& family;
  KernelKey (*key)(std::string_view target);
  int threads, shared_bytes;  // of a block

  // A block for each panel of an entry of the batch.
  LaunchShape shape(int64_t panels) const;
};
const GpuPacker& gemm_pack_amd();        // the panels of gemm_packed_layout.hpp
const GpuPacker& gemm_pack_fragments();  // NVIDIA: those of gemm_packed_fragments.hpp
const GpuPacker& gpu_packer(ArchVendor vendor);

}  // namespace tilewright
