// SPDX-License-Identifier: MIT
// Whole numbers of shared memory that threads of a block add to.
#pragma once

namespace tilewright {

// Returns what was there before.
__device__ __forceinline__ unsigned add_shared(unsigned* to, unsigned more) { return atomicAdd(to, more); }

}  // namespace tilewright
