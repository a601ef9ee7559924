// SPDX-License-Identifier: MIT
// The blocks of gemm_generic_gpu and what they take. Host and kernel share it. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

inline constexpr int kGenericTile = 32;  // rows of A, columns of B, columns of K
inline constexpr int kGenericThreads = 256;
inline constexpr int kGenericBlocks = 2;  // that an SM holds at a time
inline constexpr int kGenericPitch = kGenericTile + 4;

// In shared memory.
struct alignas(16) GenericTile {
  float a[kGenericTile][kGenericTile + 1];
  float b[kGenericTile][kGenericPitch];  // [k][n]
  alignas(16) float sums[kGenericTile][kGenericPitch];
};
inline constexpr int kGenericSharedBytes = sizeof(GenericTile);

// The tiles of a problem: `out` columns of D each.
struct GenericTiles {
  int64 m, n, out;
};
constexpr GenericTiles gemm_generic_tiles(int64 m, int64 n, GateMode gate) {
  const int64 parts = gate == GateMode::kNone ? 1 : 2, out = kGenericTile / parts;
  return {(m + kGenericTile - 1) / kGenericTile, (n / parts + out - 1) / out, out};
}

}  // namespace tilewright
