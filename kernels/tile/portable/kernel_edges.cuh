// SPDX-License-Identifier: MIT
// Programmatic edges between a kernel and those beside it in a stream, of sm_90 and later; elsewhere, and where a launch has none, nothing
// is waited for. PTX ISA 7.8.
#pragma once

namespace tilewright {

// Lets the next kernel's blocks start where there is room.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Until the kernels in front are done and their results seen.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void take_over_from_previous_kernel() {
  allow_next_kernel();
  wait_for_previous_kernel();
}
// Brings a line to the second level of cache, also one that a kernel in front still writes: that is where its writes go.
__device__ __forceinline__ void fetch_ahead(const void* line) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#endif
}

}  // namespace tilewright
