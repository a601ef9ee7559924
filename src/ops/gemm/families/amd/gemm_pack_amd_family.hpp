// SPDX-License-Identifier: MIT
// The kernel that packs weights on AMD GPUs: always built, typed at run time.
#pragma once

#include "dispatch/registry/family.hpp"

namespace tilewright {

const KernelFamily& gemm_pack_amd_family();
KernelKey gemm_pack_amd_key(std::string_view target);
// A workgroup a panel of an entry of the batch.
LaunchShape gemm_pack_amd_shape(int64_t panels);

}  // namespace tilewright
