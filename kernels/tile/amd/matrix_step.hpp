// SPDX-License-Identifier: MIT
// The matrix instructions of the target that is compiled for.
#pragma once

#if defined(__GFX9__)
#include "tile/cdna/matrix_step.hpp"
#else
#include "tile/rdna/matrix_step.hpp"
#endif
