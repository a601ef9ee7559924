// SPDX-License-Identifier: MIT
// atomics.hpp of tile/amd, or atomics.cuh of tile/portable: the same functions for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/atomics.hpp"
#else
#include "tile/portable/atomics.cuh"
#endif
