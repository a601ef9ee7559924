// SPDX-License-Identifier: MIT
// What memory takes for all weights, or the second level of cache for the tiles of the busiest SM; the exchange of sums;
// and the way of sums to D. The constants are fitted to measurements on one H200 with plain edges.
#include "ops/gemm/families/cuda/sm90/gemm_sm90_skinny_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/cuda/cuda_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.92;            // of the nominal bandwidth
constexpr double kL2BytesPerSecond = 112e9;      // into one SM
constexpr double kFixedSeconds = 5.1e-6;         // launch, first copies, end
constexpr double kExchangeSeconds = 0.7e-6;      // of parts of a tile, whatever its size
constexpr double kExchangeTileSeconds = 2.1e-6;  // more for sums of 128 x 128
constexpr double kWriteTileSeconds = 2.8e-6;     // of 128 x 128 to D

}  // namespace

double gemm_sm90_skinny_cost(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c,
                             int64_t splits) {
  const GemmSm90SkinnyCut cut = gemm_sm90_skinny_cut(c, p.n, p.k, p.batch, splits, device.units);
  const auto clusters = static_cast<double>(cut.clusters);
  // Of the busiest cluster: tiles of K, and tiles of D that it begins or ends.
  const double parts = splits > 0 ? std::ceil(static_cast<double>(cut.tiles * splits) / clusters) : 0;
  const double share = static_cast<double>(cut.share) + (cut.extra > 0 ? 1 : 0);
  const double steps = splits > 0 ? parts * share : share;
  const double writes = splits > 0 ? parts : 1 + share / static_cast<double>(cut.chunks);
  const double present = std::min<double>(c.blocks, std::ceil(clusters * c.cluster / std::max(1, device.units)));
  const double step_bytes = (c.rows + static_cast<double>(c.tokens) / c.cluster) * kSkinnyRowBytes;

  const double memory = gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device));
  const double copies = present * steps * step_bytes / kL2BytesPerSecond;
  const double part = static_cast<double>(c.rows) * c.tokens / (128 * 128);
  const double exchange = splits == 1 ? 0 : kExchangeSeconds + kExchangeTileSeconds * part;
  return kFixedSeconds + std::max(memory, copies) + exchange + kWriteTileSeconds * part * writes;
}

}  // namespace tilewright
