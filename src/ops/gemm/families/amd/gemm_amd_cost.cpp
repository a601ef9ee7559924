// SPDX-License-Identifier: MIT
// A roofline with the steps that tiles and rounds of workgroups put into it. Rates are those of arch_specs.json; the other
// constants are orders of magnitude from AMD's instruction-set references and published measurements of MI300X: no AMD GPU
// has measured them for this library.
#include "ops/gemm/families/amd/gemm_amd_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.8;        // of the nominal bandwidth
constexpr double kCacheBytesPerCycle = 64;  // into a CU
constexpr double kLdsBytesPerCycle = 128;
constexpr double kLaunchSeconds = 6e-6;
constexpr double kFillCycles = 3000;  // first tile of K, last tile of D
constexpr double kBarrierCycles = 150;

}  // namespace

const MmaSpec* amd_mma(const ArchSpec& arch, DType dtype, int mma) {
  const MmaSpec* found = nullptr;
  for (const MmaSpec& spec : arch.mma) {
    const bool fits = spec.input == dtype && spec.m == mma && spec.n == mma;
    if (fits && (found == nullptr || spec.ops_per_cycle > found->ops_per_cycle)) found = &spec;
  }
  return found;
}

int amd_step_depth(const ArchSpec& arch, DType dtype, int mma) {
  const int bits = dtype_bits(dtype);
  if (arch.target == "gfx950" && is_block_scaled(dtype)) return 64 / mma * 32;
  if (arch.wave_size == 64) return 64 / mma * 128 / bits;
  const bool twice = arch.target == "gfx1100";  // both halves of a wave hold the same
  return (twice && dtype == DType::kI8 ? 128 : 256) / bits;
}

int gemm_amd_registers(const GemmAmdConfig& c, int depth) {
  const GemmAmdShape s = gemm_amd_shape(c);
  const int sums = s.wave_rows * s.wave_columns / c.wave * (c.scale == DType::kF32 ? 2 : 1);
  const auto words = [&](DType dtype) {  // of a block's fragment
    const int bits = depth * dtype_bits(dtype) * c.mma;
    return c.wave == 32 && bits * 2 > 128 * c.wave ? 8 : std::max(4, bits / (32 * c.wave));
  };
  const int fragments = 2 * (s.blocks_m * words(c.dtype) + s.blocks_n * words(c.b_dtype));
  // Of block scales the words, and where they come from.
  const int scales = (s.blocks_m + s.blocks_n) * s.scale_words + (c.scale_copy != 0 && c.direct == 0 ? 32 : 0);
  return sums + fragments + scales + (c.direct != 0 ? 0 : s.stage_bytes / (4 * s.threads)) + 72;
}

int gemm_amd_residents(const ArchSpec& arch, const GemmAmdConfig& c) {
  const GemmAmdShape s = gemm_amd_shape(c);
  const int simds = arch.wave_size == 64 ? 4 : 2;
  const int waves = c.waves_m * c.waves_n, file = arch.wave_size == 64 ? 512 : 1536;
  const int registers = gemm_amd_registers(c, amd_step_depth(arch, c.dtype, c.mma));
  const int by_registers = std::max(1, file / std::max(registers, 1) * simds / std::max(waves, 1));
  const int by_lds = std::max<int>(1, static_cast<int>(arch.shared_bytes / s.lds_bytes));
  return std::min(by_registers, by_lds);
}

unsigned amd_dies(const ArchSpec& arch) { return arch.target == "gfx942" || arch.target == "gfx950" ? 8 : 1; }

double gemm_amd_cost(const GemmProblem& p, const DeviceSpec& device, const GemmAmdConfig& c,
                     const GemmAmdKnobs& knobs) {
  const ArchSpec& arch = *device.arch;
  const MmaSpec* spec = amd_mma(arch, wider_dtype(c.dtype, c.b_dtype), c.mma);
  if (spec == nullptr || spec->ops_per_cycle <= 0) return 1;
  const GemmAmdShape s = gemm_amd_shape(c);
  const auto split = static_cast<unsigned>(knobs.split_k);
  const GemmAmdTiles tiles = gemm_amd_tiles(c, p.m, p.n, p.k, p.batch, split);
  const double units = device.units;
  const double groups =
      knobs.workers > 0 ? static_cast<double>(knobs.workers) : static_cast<double>(tiles.count) * tiles.splits;
  const double steps = knobs.workers > 0  ? static_cast<double>(tiles.count) * tiles.steps / groups
                       : tiles.splits > 1 ? split
                                          : tiles.steps;
  const double resident = std::min<double>(gemm_amd_residents(arch, c), std::ceil(groups / units));
  const double rounds = std::ceil(groups / units);  // workgroups that the busiest CU computes

  // One step of one workgroup: the instructions, fragments out of LDS, the tile through LDS and from the caches.
  const double products = 2.0 * c.tile_m * c.tile_n * c.tile_k / spec->ops_per_cycle;
  const double waves = c.waves_m * c.waves_n;
  const double fragments = waves * (s.wave_rows * s.a_row_bytes + s.wave_columns * s.b_row_bytes) / kLdsBytesPerCycle;
  const double copied = s.stage_bytes / kCacheBytesPerCycle;
  const double slow = c.a_copy != 0 && c.b_copy != 0 ? 1 : 8.0 / s.a_size;  // by elements
  const double exposed = (c.stages == 1 ? copied / 2 : 0) + kBarrierCycles;
  const double step = std::max({products, fragments + s.stage_bytes / kLdsBytesPerCycle, copied * slow}) +
                      exposed / std::max(1.0, resident);
  const double cycle = 1 / clock_hz(device);
  const double work = (rounds * steps * step + kFillCycles) * cycle;

  const double memory = gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device));
  const double partial = static_cast<double>(gemm_amd_partial_tiles(tiles, static_cast<unsigned>(knobs.workers))) *
                         c.tile_m * c.tile_n * 4;
  const double reduce =
      partial > 0 ? kLaunchSeconds + 2 * partial / (2 * kMemoryShare * memory_bytes_per_second(device)) : 0;
  return kLaunchSeconds + std::max(work, memory) + reduce;
}

}  // namespace tilewright
