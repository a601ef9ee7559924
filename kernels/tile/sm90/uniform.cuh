// SPDX-License-Identifier: MIT
// A word that is the same in all lanes of a warp, and that the compiler knows to be: it lies in a uniform register then, and so
// does what follows from it, counts of loops, addresses and descriptors. What a thread loads from shared memory it takes for
// different in each lane. PTX ISA 7.0, "redux.sync".
#pragma once

namespace tilewright::sm90 {

__device__ __forceinline__ int uniform(int word) { return __reduce_max_sync(0xFFFFFFFF, word); }
__device__ __forceinline__ unsigned uniform(unsigned word) { return __reduce_max_sync(0xFFFFFFFF, word); }

}  // namespace tilewright::sm90
