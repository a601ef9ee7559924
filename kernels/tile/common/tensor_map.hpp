// SPDX-License-Identifier: MIT
// A tensor map as it stands in a kernel's arguments: the copy engine of sm_90 reads it there. Freestanding.
#pragma once

namespace tilewright {

struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

}  // namespace tilewright
