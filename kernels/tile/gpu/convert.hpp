// SPDX-License-Identifier: MIT
// convert.hpp of tile/amd, or convert.cuh of tile/portable: the same functions for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/convert.hpp"
#else
#include "tile/portable/convert.cuh"
#endif
