// SPDX-License-Identifier: MIT
// Whole numbers that threads change together: of shared memory, and of the device's.
#pragma once

#include "tile/amd/words.hpp"

namespace tilewright {

// Returns what was there before.
__device__ __forceinline__ unsigned add_shared(unsigned* to, unsigned more) {
#if defined(TILEWRIGHT_EMULATED_TARGET)
  return __atomic_fetch_add(to, more, __ATOMIC_RELAXED);
#else
  auto* const lds = (TILEWRIGHT_LDS unsigned*)to;
  return __hip_atomic_fetch_add(lds, more, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#endif
}
__device__ __forceinline__ void set_shared(unsigned* to, unsigned bits) {
#if defined(TILEWRIGHT_EMULATED_TARGET)
  __atomic_fetch_or(to, bits, __ATOMIC_RELAXED);
#else
  auto* const lds = (TILEWRIGHT_LDS unsigned*)to;
  __hip_atomic_fetch_or(lds, bits, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#endif
}
__device__ __forceinline__ unsigned add_device(unsigned* to, unsigned more) {
#if defined(TILEWRIGHT_EMULATED_TARGET)
  return __atomic_fetch_add(to, more, __ATOMIC_RELAXED);
#else
  return __hip_atomic_fetch_add(to, more, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#endif
}

}  // namespace tilewright
