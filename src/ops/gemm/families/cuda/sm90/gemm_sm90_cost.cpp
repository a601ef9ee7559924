// SPDX-License-Identifier: MIT
// Steps of the busiest cluster, each as long as its products, its bytes to and from shared memory or its copies from the
// second level of cache take; what memory and the power limit allow at all; and what a launch and the last tile cost besides.
#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dispatch/registry/family.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kClockShare = 0.84;   // of the highest clock, while tensor cores work
constexpr double kPowerShare = 0.79;   // of the rate at the highest clock, over all SMs
constexpr double kMemoryShare = 0.68;  // of the nominal bandwidth, where few rows leave only copies to wait for
constexpr double kSharedL2BytesPerSecond = 80e9;  // into one SM, where a cluster shares B
constexpr double kL2BytesPerSecond = 62e9;        // otherwise, and out of it
constexpr double kSharedBytes = 128;              // a cycle
constexpr double kAddingCycles = 50;              // of a step summed apart by two instructions, that no products hide
constexpr double kAddingOneCycles = 130;          // by one
constexpr double kFixedSeconds = 4.3e-6;          // launch, first copies, end
constexpr double kTileSeconds = 0.4e-6;           // from one tile of 128 x 256 to the next
constexpr double kExchangeSeconds = 4e-6;         // parts of a tile, sums of 128 x 256

// Bytes that a step moves to and from shared memory: wgmma reads its 64 rows of A and its columns of B, 32 bytes of K each.
double shared_bytes_of_step(const GemmSm90Config& c) {
  const int columns = gemm_sm90_columns_at_once(c);
  const int across = c.tile_n / columns;
  const double instructions = c.tile_m / 64.0 * across * (kSm90RowBytes / 32.0);
  return instructions * (64 + columns) * 32 + (c.tile_m + c.tile_n) * kSm90RowBytes;
}

}  // namespace

const MmaSpec* sm90_wgmma(const ArchSpec& arch, DType dtype, int n) {
  for (const MmaSpec& spec : arch.mma) {
    const bool named = spec.name == (dtype == DType::kF32 ? "wgmma_tf32" : "wgmma");
    if (named && spec.input == dtype && spec.n == n) return &spec;
  }
  return nullptr;
}

double gemm_sm90_cost(const GemmProblem& p, const DeviceSpec& device, const GemmSm90Config& c, int split) {
  const MmaSpec* spec = sm90_wgmma(*device.arch, c.dtype, c.tile_n);
  if (spec == nullptr) return 1;
  const int blocks = c.cluster_m * c.cluster_n;
  const int clusters = std::max(1, device.units / blocks);
  const GemmSm90Share share = gemm_sm90_share(c, p.m, p.n, p.batch, split, clusters);
  const double clock = clock_hz(device) * kClockShare;
  const double steps = std::ceil(static_cast<double>(p.k) / sm90_tile_k(c.dtype));

  // One step of one block.
  const double products = 2.0 * c.tile_m * c.tile_n * sm90_tile_k(c.dtype) / spec->ops_per_cycle / clock;
  const double bytes =
      (static_cast<double>(c.tile_m) / c.cluster_n + static_cast<double>(c.tile_n) / c.cluster_m) * kSm90RowBytes;
  const bool apart = c.promote != Promotion::kNone;
  const double adding = gemm_sm90_pieces(c) == 1 ? kAddingOneCycles : kAddingCycles;
  const double inside = apart ? products + adding / clock : shared_bytes_of_step(c) / kSharedBytes / clock;
  const double step =
      std::max({products, inside, bytes / (c.cluster_m > 1 ? kSharedL2BytesPerSecond : kL2BytesPerSecond)});
  const double part = static_cast<double>(c.tile_m) * c.tile_n / (128 * 256);
  const double d_bytes = static_cast<double>(c.tile_m) * gemm_sm90_d_columns(c) * dtype_bits(p.d_dtype) / 8;
  const double end = d_bytes / kL2BytesPerSecond + kTileSeconds * part;
  const double whole = std::ceil(static_cast<double>(share.whole) / clusters);
  double seconds = whole * (steps * step + end);
  if (share.rest > 0) seconds += std::ceil(steps / split) * step + end + kExchangeSeconds * part;

  const double memory = gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device));
  const double power = gemm_operations(p) / (spec->ops_per_cycle * clock / kClockShare * device.units * kPowerShare);
  return kFixedSeconds + std::max({seconds, memory, power});
}

}  // namespace tilewright
