// SPDX-License-Identifier: MIT
// The slowest of four streams, rounded where they meet: memory for all weights; the second level of cache for what all
// blocks ask of it; the way into the busiest SM; its products. Then the exchange of sums, and D. The constants are fitted
// to times of some 900 pairs of kernel and problem on one H200 with plain edges.
#include "ops/gemm/families/cuda/sm90/gemm_sm90_skinny_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.915;            // of the nominal bandwidth
constexpr double kCacheBytesPerSecond = 11.4e12;  // the second level to all SMs
constexpr double kIntoSmBytesPerSecond = 132e9;
constexpr double kProductsSeconds = 67e-9;   // of 64 rows by 64 tokens over 128 bytes of K
constexpr double kApartSeconds = 15e-9;      // more where these are summed apart
constexpr double kFixedSeconds = 3.1e-6;     // launch, first copies, end
constexpr double kClusterSeconds = 0.63e-6;  // more with clusters
constexpr double kExchangeSeconds = 0.12e-6;
constexpr double kMeetingSeconds = 0.12e-6;       // of parts in a cluster; taken to be the same, not fitted
constexpr double kExchangeByteSeconds = 110e-12;  // of sums that a block gives away
constexpr double kWriteSumSeconds = 98e-12;       // from the last product to D
constexpr double kSharpness = 6;                  // of the maximum

}  // namespace

double gemm_sm90_skinny_cost(const GemmProblem& p, const DeviceSpec& device, const GemmSm90SkinnyConfig& c) {
  const GemmSm90SkinnyCut cut = gemm_sm90_skinny_cut(c, p.n, p.k, p.batch, device.units);
  const auto clusters = static_cast<double>(cut.clusters), splits = static_cast<double>(c.splits);
  // Of the busiest cluster: steps of K, and tiles of D that it begins or ends.
  const bool meet = gemm_sm90_skinny_parts_meet(c);
  const int sharers = gemm_sm90_skinny_sharers(c);
  const double parts = std::ceil(static_cast<double>(cut.tiles) * splits / clusters);
  const double share = static_cast<double>(cut.share) + (cut.extra > 0 ? 1 : 0);
  const double steps = c.splits > 0 ? parts * share : share;
  const double writes = c.splits > 0 ? parts : 1 + share / static_cast<double>(cut.chunks);
  const double present = std::min<double>(c.blocks, std::ceil(clusters * sharers / std::max(1, device.units)));

  const double tiles_of_k = steps * c.depth, sums = static_cast<double>(c.rows) * c.tokens;
  const double products = kProductsSeconds * std::max(c.tokens, 32) / 64 +
                          (c.promote != Promotion::kNone ? kApartSeconds * c.tokens / 64 : 0);
  const double streams[] = {
      gemm_bytes_moved(p) / (kMemoryShare * memory_bytes_per_second(device)),
      clusters * tiles_of_k * kSkinnyRowBytes * (c.rows * sharers + c.tokens) / kCacheBytesPerSecond,
      present * tiles_of_k * kSkinnyRowBytes * (c.rows + c.tokens) / kIntoSmBytesPerSecond,
      present * tiles_of_k * c.rows / 64 * products};
  double stream = 0;
  for (const double seconds : streams) stream += std::pow(seconds, kSharpness);
  stream = std::pow(stream, 1 / kSharpness);

  // Equal shares: who completes a tile takes the parts of it one after another.
  const double others = std::ceil(static_cast<double>(cut.chunks) / std::max(1.0, static_cast<double>(cut.share)));
  const double given = c.splits == 1 ? 0 : sums * 4 * (c.splits == 0 ? others : (splits - 1) / splits);
  const double exchange = c.splits == 1 || meet ? 0 : kExchangeSeconds + present * given * kExchangeByteSeconds;
  return kFixedSeconds +
         (sharers > 1 ? kClusterSeconds
          : meet      ? kMeetingSeconds
                      : 0) +
         stream + exchange + present * sums * writes * kWriteSumSeconds;
}

}  // namespace tilewright
