// SPDX-License-Identifier: MIT
// kernel_edges.hpp of tile/amd, or kernel_edges.cuh of tile/portable: the same functions for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/kernel_edges.hpp"
#else
#include "tile/portable/kernel_edges.cuh"
#endif
