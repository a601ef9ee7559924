// SPDX-License-Identifier: MIT
// Arguments of the kernels that measure a GPU's limits. Freestanding: host and kernels share them.
#pragma once

namespace tilewright {

struct ReadProbeArgs {
  const void* data;  // aligned to 16 bytes
  long long words;   // of 16 bytes
  unsigned* sink;    // written only if the words' bits come out as no data has them
};

}  // namespace tilewright
