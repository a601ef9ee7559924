// SPDX-License-Identifier: MIT
// Steps of the busiest cluster, each as long as its products or its copies from the second level of cache take; what
// memory and the power limit allow at all; and what a launch and the last tile cost besides.
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/cuda/cuda_problem.hpp"

namespace tilewright {
namespace {

constexpr double kClockGhz = 1.75;
constexpr double kClockShare = 0.91;        // of the highest clock, while tensor cores work
constexpr double kPowerShare = 0.79;        // of the rate at that clock, over all SMs
constexpr double kMemoryShare = 0.68;       // of the nominal bandwidth, where few rows leave only copies to wait for
constexpr double kL2BytesPerSecond = 62e9;  // into one SM
constexpr double kFixedSeconds = 4.3e-6;    // launch, first copies, end
constexpr double kWriteSeconds = 1.6e-6;    // of a tile of 128 x 256
constexpr double kExchangeSeconds = 4e-6;   // parts of a tile, sums of 128 x 256

}  // namespace

const MmaSpec* sm90_wgmma(const ArchSpec& arch, DType dtype, int n) {
  for (const MmaSpec& spec : arch.mma) {
    const bool named = spec.name == (dtype == DType::kF32 ? "wgmma_tf32" : "wgmma");
    if (named && spec.input == dtype && spec.n == n) return &spec;
  }
  return nullptr;
}

std::string sm90_order(DType dtype, std::string_view wgmma) {
  if (dtype == DType::kF32) return fmt::format("{}_tf32", wgmma);
  if (!is_ocp_f8(dtype)) return std::string(wgmma);
  return fmt::format("{}_by{}", wgmma, sm90_tile_k(dtype));
}

double gemm_sm90_cost(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c, int split) {
  const MmaSpec* spec = sm90_wgmma(*device.arch, c.dtype, c.tile_n);
  if (spec == nullptr) return 1;
  const int blocks = c.cluster_m * c.cluster_n;
  const int clusters = std::max(1, device.units / blocks);
  const GemmSm90Share share = gemm_sm90_share(c, p.m, p.n, p.batch, split, clusters);
  const double clock = (device.clock_ghz > 0 ? device.clock_ghz : kClockGhz) * kClockShare * 1e9;
  const double steps = std::ceil(static_cast<double>(p.k) / sm90_tile_k(c.dtype));

  // One step of one block.
  const double products = 2.0 * c.tile_m * c.tile_n * sm90_tile_k(c.dtype) / spec->ops_per_cycle / clock;
  const double bytes =
      (static_cast<double>(c.tile_m) / c.cluster_n + static_cast<double>(c.tile_n) / c.cluster_m) * kSm90RowBytes;
  const double step = std::max(products, bytes / kL2BytesPerSecond);
  const double part = static_cast<double>(c.tile_m) * c.tile_n / (128 * 256);
  const double whole = std::ceil(static_cast<double>(share.whole) / clusters);
  double seconds = whole * (steps * step + kWriteSeconds * part);
  if (share.rest > 0) seconds += std::ceil(steps / split) * step + kWriteSeconds * part + kExchangeSeconds * part;

  const double memory = gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device));
  const double power = gemm_operations(p) / (spec->ops_per_cycle * clock / kClockShare * device.units * kPowerShare);
  return kFixedSeconds + std::max({seconds, memory, power});
}

}  // namespace tilewright
