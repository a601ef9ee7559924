// SPDX-License-Identifier: MIT
// What grouped_gemm_cpu and grouped_dequant_cpu take of the workspace. Host and kernel share it. Freestanding.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "grouped_gemm/grouped_gemm_args.hpp"

namespace tilewright {

// Rows of a group that are multiplied at a time: of many, weights are packed anew for each such part.
inline constexpr int64 kGroupedRows = 4096;

// Of one unit, whatever the groups' sizes are: the most that any number of rows takes.
constexpr int64 grouped_unit_bytes(const GemmCpuConfig& config, GemmCpuSizes sizes, int64 units) {
  const int64 most = blocking::smaller(sizes.m, kGroupedRows);
  sizes.batch = 1, sizes.block_m = 0;
  int64 bytes = 0;
  for (int64 tiles = 1; tiles <= blocking::ceil_div(most, config.tile_m); ++tiles) {
    sizes.m = blocking::smaller(tiles * config.tile_m, most);
    bytes = blocking::larger(bytes, gemm_cpu_blocking(config, sizes, units).unit_bytes);
  }
  return bytes;
}

}  // namespace tilewright
