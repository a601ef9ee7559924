// SPDX-License-Identifier: MIT
// The kernels that pack weights on CPUs.
#pragma once

#include "dispatch/registry/family.hpp"

namespace tilewright {

const KernelFamily& gemm_pack_cpu_family();
// The fastest packing kernel that runs on the device.
const KernelKey& gemm_pack_cpu_key(const DeviceSpec& device);

}  // namespace tilewright
