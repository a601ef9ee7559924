// SPDX-License-Identifier: MIT
// Whole numbers of shared memory that threads of a block change.
#pragma once

namespace tilewright {

// Returns what was there before.
__device__ __forceinline__ unsigned add_shared(unsigned* to, unsigned more) { return atomicAdd(to, more); }
__device__ __forceinline__ void set_shared(unsigned* to, unsigned bits) { atomicOr(to, bits); }

}  // namespace tilewright
