// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/wait_both.cuh.
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

inline void wait_both(Barrier& first, unsigned first_parity, Barrier& second, unsigned second_parity) {
  wait(first, first_parity);
  wait(second, second_parity);
}

}  // namespace tilewright::sm90
