// SPDX-License-Identifier: MIT
// What an emulated kernel includes before its own source: clang's amdgcn builtins as functions over the emulation. One that
// is not here is a compile error. The target's macros (__gfx942__, __GFX9__, __AMDGCN_WAVEFRONT_SIZE ...) come from the
// command line.
#pragma once

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

#include "tile/emu/async_copy.hpp"
#include "tile/emu/atomics.hpp"
#include "tile/emu/buffer.hpp"
#include "tile/emu/dpp.hpp"
#include "tile/emu/ids.hpp"
#include "tile/emu/lanes.hpp"
#include "tile/emu/math.hpp"
#include "tile/emu/matrix/convert_builtins.hpp"
#include "tile/emu/memory_callbacks.hpp"
#include "tile/emu/runtime.hpp"
#include "tile/emu/sync.hpp"
