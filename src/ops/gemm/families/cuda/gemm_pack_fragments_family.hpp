// SPDX-License-Identifier: MIT
// The kernel that packs e2m1 on NVIDIA GPUs: always built, typed at run time.
#pragma once

#include "dispatch/registry/family.hpp"

namespace tilewright {

const KernelFamily& gemm_pack_fragments_family();
KernelKey gemm_pack_fragments_key(std::string_view target);
// A block for sixteen columns of an entry of the batch.
LaunchShape gemm_pack_fragments_shape(int64_t panels);

}  // namespace tilewright
