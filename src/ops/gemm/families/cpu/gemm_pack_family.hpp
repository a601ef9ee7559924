// SPDX-License-Identifier: MIT
// The kernels that pack weights: always built, one a target, typed at run time.
#pragma once

#include "dispatch/registry/family.hpp"

namespace tilewright {

const KernelFamily& gemm_pack_family();
// The fastest packing kernel that runs on the device.
const KernelKey& gemm_pack_key(const DeviceSpec& device);

}  // namespace tilewright
