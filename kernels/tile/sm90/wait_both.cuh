// SPDX-License-Identifier: MIT
// Two barriers at once: their answers, which take some twenty cycles each, come side by side.
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

__device__ __forceinline__ void wait_both(Barrier& first, unsigned first_parity, Barrier& second,
                                          unsigned second_parity) {
  asm volatile(
      "{\n"
      ".reg .pred done, too;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 too, [%2], %3;\n"
      "and.pred done, done, too;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n"
      "}\n" ::"r"(shared_address(&first)),
      "r"(first_parity), "r"(shared_address(&second)), "r"(second_parity)
      : "memory");
}

}  // namespace tilewright::sm90
