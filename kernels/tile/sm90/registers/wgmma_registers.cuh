// SPDX-License-Identifier: MIT
// wgmma with A in registers. Thread t of a warp holds of A [64, 16], for its row r = 16 (warp % 4) + t / 4, in pairs:
//   a[0]: row r, columns 2 (t % 4) and the next;  a[1]: row r + 8;  a[2], a[3]: the same rows, the columns 8 further on.
// They must not change until wait_products. PTX ISA 8.0, "Asynchronous warpgroup level matrix instructions".
#pragma once

#include "tile/generated/wgmma_registers_sm90.cuh"
#include "tile/sm90/wgmma.cuh"
