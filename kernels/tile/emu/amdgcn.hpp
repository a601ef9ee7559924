// SPDX-License-Identifier: MIT
// What an emulated kernel includes before its own source: clang's amdgcn builtins as functions over the emulation. One that
// is not here is a compile error. The target's macros (__gfx942__, __GFX9__, __AMDGCN_WAVEFRONT_SIZE ...) come from the
// command line.
#pragma once

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))

#include "tile/emu/instructions/async_copy.hpp"
#include "tile/emu/instructions/atomics.hpp"
#include "tile/emu/instructions/buffer.hpp"
#include "tile/emu/instructions/dpp.hpp"
#include "tile/emu/instructions/ids.hpp"
#include "tile/emu/instructions/lanes.hpp"
#include "tile/emu/instructions/lds_transpose.hpp"
#include "tile/emu/instructions/math.hpp"
#include "tile/emu/instructions/sync.hpp"
#include "tile/emu/matrix/convert_builtins.hpp"
#include "tile/emu/memory_callbacks.hpp"
#include "tile/emu/runtime.hpp"
