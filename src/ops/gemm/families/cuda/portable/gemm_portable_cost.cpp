// SPDX-License-Identifier: MIT
// A roofline with the steps that tiles and waves put into it. Constants are of the order of what sm_80 and sm_90 do; the
// tuner measures what matters.
#include "ops/gemm/families/cuda/portable/gemm_portable_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.85;     // of the nominal bandwidth
constexpr double kL2GbpsUnit = 40;        // into one SM
constexpr double kLatencySeconds = 8e-7;  // of a copy from memory
constexpr double kLaunchSeconds = 2.5e-6;
constexpr double kFillSeconds = 1.5e-6;  // first copies, epilogue
constexpr int kUnitSharedExtra = 1024;   // of every block
constexpr double kBytesPerCycleShared = 128;

// Operations an SM retires a cycle: what the target states, else half of the best instruction of that type.
double operations_per_cycle(const ArchSpec& arch, const MmaSpec& spec) {
  if (spec.ops_per_cycle > 0) return spec.ops_per_cycle;
  double best = 0;
  for (const MmaSpec& other : arch.mma) {
    if (other.input == spec.input) best = std::max(best, other.ops_per_cycle);
  }
  return best > 0 ? best / 2 : 1024;
}

// Blocks that an SM holds at a time.
double resident_blocks(const ArchSpec& arch, const GemmPortableShape& shape) {
  const int64_t by_shared = arch.shared_bytes / (shape.shared_bytes + kUnitSharedExtra);
  return static_cast<double>(std::max<int64_t>(1, std::min<int64_t>(by_shared, shape.blocks)));
}

}  // namespace

const MmaSpec* portable_mma(const ArchSpec& arch, DType dtype, PortableMma mma) {
  if (is_ocp_f8(dtype)) dtype = DType::kF16;
  const MmaSpec* found = nullptr;
  for (const MmaSpec& spec : arch.mma) {
    if (spec.name == kPortableMmaNames[static_cast<int>(mma)] && spec.input == dtype &&
        (mma == PortableMma::kFma || spec.k * dtype_bits(dtype) == 256)) {
      found = &spec;
    }
  }
  return found;
}

double gemm_portable_cost(const GemmProblem& p, const DeviceSpec& device, const GemmPortableConfig& c,
                          int64_t block_k) {
  const MmaSpec* spec = portable_mma(*device.arch, c.dtype, c.mma);
  if (spec == nullptr) return 1;
  const GemmPortableShape shape = gemm_portable_shape(c);
  const GemmPortableTiles tiles = gemm_portable_tiles(c, p.m, p.n, p.k, block_k);
  const double blocks = static_cast<double>(tiles.m * tiles.n * tiles.splits * p.batch);
  const double depth = static_cast<double>(tiles.splits > 1 ? block_k : p.k);
  const double steps = std::ceil(depth / c.tile_k);
  const double resident = std::min(resident_blocks(*device.arch, shape), std::ceil(blocks / device.units));
  const double rounds = std::ceil(blocks / device.units);  // blocks that the busiest SM computes
  const double cycle = 1 / clock_hz(device);

  // One step of one block: the multiplications, or the fragments that the warps read for them.
  const double products = 2.0 * c.tile_m * c.tile_n * c.tile_k;
  const int warp_rows = c.tile_m / c.warps_m + c.tile_n / c.warps_n, block_warps = shape.threads / 32;
  const double fragments = static_cast<double>(block_warps) * warp_rows * c.tile_k * shape.size;
  const double warps = resident * shape.threads / 32;
  const double busy = std::min(1.0, 0.45 + 0.1 * warps);  // latencies that other warps hide
  const double compute =
      std::max(products / operations_per_cycle(*device.arch, *spec), fragments / kBytesPerCycleShared) / busy * cycle;
  // What reaches an SM: its share of the second level of cache, and copies under way against their latency.
  const double bytes = static_cast<double>(c.tile_m + c.tile_n) * c.tile_k * shape.size;
  const double slow = c.a_copy == 16 && c.b_copy == 16 ? 1 : c.a_copy != 0 && c.b_copy != 0 ? 1.3 : 3;
  const double in_flight = resident * (c.stages - 1) * bytes;
  const double copy = bytes * slow / std::min(kL2GbpsUnit * 1e9, in_flight / kLatencySeconds);
  const double work = rounds * steps * std::max(compute, copy);

  const double memory = gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device));
  double reduce = 0;
  if (tiles.splits > 1) {
    const double rows = static_cast<double>(std::min<int64_t>(p.m, tiles.m * c.tile_m));
    const double partial = rows * static_cast<double>(tiles.n * tiles.splits * p.batch) * c.tile_n * 4;
    reduce =
        kLaunchSeconds + 2 * partial / (3 * (kMemoryShare * memory_bytes_per_second(device)));  // mostly in the cache
  }
  return kLaunchSeconds + kFillSeconds + std::max(work, memory) + reduce;
}

double gemm_generic_gpu_cost(const GemmProblem& p, const DeviceSpec& device) {
  // A few instructions a product, and whole blocks of 32 x 32.
  const double blocks = std::ceil(static_cast<double>(p.m) / 32) * std::ceil(static_cast<double>(p.n) / 32) *
                        static_cast<double>(p.batch);
  const double rounds = std::ceil(blocks / (device.units * 4.0));
  return kLaunchSeconds + rounds * (static_cast<double>(p.k) * 250 + 2000) / clock_hz(device);
}

}  // namespace tilewright
