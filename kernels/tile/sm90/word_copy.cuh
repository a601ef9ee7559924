// SPDX-License-Identifier: MIT
// Single words to shared memory that count at a barrier when they land: what no tensor map describes.
// PTX ISA, "cp.async", "cp.async.mbarrier.arrive".
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

// Four bytes; zero where they are not `there`, and then nothing is read.
__device__ __forceinline__ void copy_word(float* to, const float* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 4 : 0)
               : "memory");
}
// This thread's arrival, once all that it asked copy_word for is there.
__device__ __forceinline__ void arrive_with_words(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

}  // namespace tilewright::sm90
