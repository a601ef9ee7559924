// SPDX-License-Identifier: MIT
// A block's threads and shared memory: threadIdx, blockIdx, __syncthreads() and dynamic_shared() for the GPU that is
// compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/words.hpp"
#else
#include "tile/portable/async_copy.cuh"
#endif
