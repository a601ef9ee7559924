// SPDX-License-Identifier: MIT
// pack_bytes.hpp of tile/amd, or pack_bytes.cuh of tile/portable: the same functions for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/pack_bytes.hpp"
#else
#include "tile/portable/pack_bytes.cuh"
#endif
