// SPDX-License-Identifier: MIT
// math.hpp of tile/amd, or math.cuh of tile/portable: the same functions for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/math.hpp"
#else
#include "tile/portable/math.cuh"
#endif
