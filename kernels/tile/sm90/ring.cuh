// SPDX-License-Identifier: MIT
// Where a producer or a consumer stands in a ring of stages: the stage, and the parity of its barriers' phase.
#pragma once

namespace tilewright::sm90 {

template <int kStages>
struct Ring {
  int stage = 0;
  unsigned phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace tilewright::sm90
