// SPDX-License-Identifier: MIT
// lane_exchange.hpp of tile/amd, or lane_exchange.cuh of tile/portable: the same functions for the GPU that is compiled for.
#pragma once

#if defined(__AMDGCN__)
#include "tile/amd/lane_exchange.hpp"
#else
#include "tile/portable/lane_exchange.cuh"
#endif
