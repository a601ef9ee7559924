// SPDX-License-Identifier: MIT
// narrow_f8.hpp of tile/amd, or narrow_f8.cuh of tile/portable: the same function for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/narrow_f8.hpp"
#else
#include "tile/portable/narrow_f8.cuh"
#endif
