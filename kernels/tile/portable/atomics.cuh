// SPDX-License-Identifier: MIT
// Whole numbers that threads change together: of shared memory, and of the device's.
#pragma once

namespace tilewright {

// Returns what was there before.
__device__ __forceinline__ unsigned add_shared(unsigned* to, unsigned more) { return atomicAdd(to, more); }
__device__ __forceinline__ void set_shared(unsigned* to, unsigned bits) { atomicOr(to, bits); }
__device__ __forceinline__ unsigned add_device(unsigned* to, unsigned more) { return atomicAdd(to, more); }

}  // namespace tilewright
