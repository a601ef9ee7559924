// SPDX-License-Identifier: MIT
// Bytes over the bandwidth, what too few workgroups leave idle of it, and the matrix instructions where they take longer.
// Rates are those of arch_specs.json; the other constants are orders of magnitude, as in gemm_amd_cost.cpp.
#include "ops/gemm/families/amd/gemv_amd_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/amd/gemm_amd_cost.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.85;       // of the nominal bandwidth
constexpr double kLatencySeconds = 1.5e-6;  // of memory under load
constexpr double kUnitBytesPerCycle = 48;   // that a CU takes in from the caches while others do the same
constexpr double kLaunchSeconds = 6e-6;
constexpr double kFillSeconds = 1e-6;   // first bytes, sums of the waves
constexpr double kGroupSeconds = 4e-7;  // until a later workgroup's first bytes come; others of the CU stream meanwhile
constexpr double kShortPieces = 1.1;    // loads of less than 16 bytes by a lane

}  // namespace

int gemv_amd_step_bytes(const ArchSpec& arch, DType dtype) {
  if (arch.wave_size == 64) return 64;
  return arch.target == "gfx1100" && dtype == DType::kI8 ? 16 : 32;
}

int gemv_amd_loads(const GemvAmdConfig& c, const ArchSpec& arch) {
  const GemvAmdShape s = gemv_amd_shape(c);
  const int words = s.row_bytes * s.tile_n * (arch.target == "gfx1100" ? 2 : 1) / (4 * c.wave);
  return words * 4 / s.piece_bytes;
}

int gemv_amd_registers(const GemvAmdConfig& c, const ArchSpec& arch) {
  const GemvAmdShape s = gemv_amd_shape(c);
  const int step_bytes = gemv_amd_step_bytes(arch, c.dtype);
  const bool twice = arch.target == "gfx1100";                        // both halves of a wave hold the same
  const int row = s.row_bytes * 16 * (twice ? 2 : 1) / (4 * c.wave);  // of 16 rows, a stage
  const bool apart = c.a_copy != 16 && c.wave == 64;                  // elements of A, a register each
  const int tokens = row * (apart ? 4 / s.size : 1);
  const int others = c.wave == 32 && c.weights != GemvAmdWeights::kRows ? 56 : 40;
  const int turned = c.weights == GemvAmdWeights::kRows ? 0 : row * c.blocks_n * step_bytes / s.row_bytes;
  return 2 * (c.tile_m / 16 * tokens + c.blocks_n * row) + turned + c.tile_m * s.tile_n / c.wave + others;
}

int gemv_amd_waves(const GemvAmdConfig& c, const ArchSpec& arch) {
  const int registers = gemv_amd_registers(c, arch);
  return std::clamp((c.wave == 64 ? 512 : 1536) / std::max(registers, 1), 1, c.wave == 64 ? 8 : 16);
}

int gemv_amd_residents(const ArchSpec& arch, const GemvAmdConfig& c) {
  const int simds = arch.wave_size == 64 ? 4 : 2;
  const int by_registers = gemv_amd_waves(c, arch) * simds / c.waves;
  const int by_lds = static_cast<int>(arch.shared_bytes / gemv_amd_shape(c).lds_bytes);
  return std::max(1, std::min(by_registers, by_lds));
}

double gemv_amd_cost(const GemmProblem& p, const DeviceSpec& device, const GemvAmdConfig& c, int64_t split_k) {
  const ArchSpec& arch = *device.arch;
  const GemvAmdShape s = gemv_amd_shape(c);
  const MmaSpec* spec = amd_mma(arch, c.dtype, 16);
  if (spec == nullptr || spec->ops_per_cycle <= 0) return 1;
  const double units = std::max(1, device.units), resident = gemv_amd_residents(arch, c);
  const double memory = kMemoryShare * memory_bytes_per_second(device), clock = clock_hz(device);
  const auto splits = static_cast<double>(gemv_amd_splits(c, p.k, split_k));
  const double columns = static_cast<double>(gemv_amd_groups(c, p.n) * p.batch), groups = columns * splits;

  // A workgroup's weights, and the rows of A, which come from the caches.
  const double depth = static_cast<double>(p.k) / splits * s.size;
  const double weights = s.tile_n * depth, rows = static_cast<double>(std::min<int64_t>(p.m, c.tile_m)) * depth;
  const double present = std::min(std::ceil(groups / units), resident);
  const double in_flight = std::min(weights, 2.0 * s.tile_n * s.row_bytes * c.waves) * present;
  const double unit_rate = std::min(kUnitBytesPerCycle * clock, in_flight / kLatencySeconds);
  const double rounds = std::ceil(groups / units);  // workgroups that the busiest CU takes
  const double by_units = rounds * (weights + rows) / unit_rate;
  const double by_memory = gemm_bytes_moved(p) / memory * (s.piece_bytes < 16 ? kShortPieces : 1);
  const double products = rounds * 2 * c.tile_m * s.tile_n * depth / s.size / (spec->ops_per_cycle * clock);
  const double starts = std::max(0.0, rounds - resident) * kGroupSeconds / resident;

  const double partial = splits > 1 ? groups * c.tile_m * s.tile_n * 4 : 0;
  const double reduce = partial > 0 ? kLaunchSeconds + 2 * partial / (2 * memory) : 0;
  return kLaunchSeconds + kFillSeconds + std::max({by_memory, by_units, products}) + starts + reduce;
}

}  // namespace tilewright
