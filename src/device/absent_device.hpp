// SPDX-License-Identifier: MIT
// A GPU that is not here: what dispatch chooses and binds for it can be looked at, and nothing runs. Its kernels are code
// that was compiled, not loaded; tensor maps are checked, and stay zeros.
#pragma once

#include "device/device.hpp"

namespace tilewright {

// What a GPU of this part says of itself; the memory is all that the part has.
DeviceSpec spec_of_part(const ArchSpec& arch, const PartSpec& part);

std::unique_ptr<Device> make_absent_device(DeviceSpec spec);
// The code of a kernel that an absent device took.
Result<Artifact> absent_artifact(const LoadedKernel& kernel);

}  // namespace tilewright
