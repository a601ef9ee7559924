// SPDX-License-Identifier: MIT
// threadIdx.x, made anew at each call: what is computed from it is not kept over a long loop, in registers that sums want.
#pragma once

namespace tilewright::sm90 {

__device__ __forceinline__ unsigned fresh_thread() {
  unsigned thread = threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}

}  // namespace tilewright::sm90
