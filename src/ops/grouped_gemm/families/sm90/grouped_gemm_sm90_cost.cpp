// SPDX-License-Identifier: MIT
// Memory, the second level of cache, the busiest SM (products or shared memory, whichever takes more cycles a tile of K, then
// D), and what its ring of stages holds on the way. No constant is fitted yet: docs/kernels/grouped_gemm_sm90.md.
#include "ops/grouped_gemm/families/sm90/grouped_gemm_sm90_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/cuda/sm90/gemm_sm90_cost.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShareOfGroups = 0.9;  // of the nominal bandwidth
constexpr double kCacheBytesPerSecondOfGroups = 11e12;
constexpr double kClockShareOfGroups = 0.8;         // of the highest clock, while tensor cores work
constexpr double kFixedSecondsOfGroups = 5e-6;      // launch, the walk to the first tile, the last tile's D
constexpr double kClusterSecondsOfGroups = 0.6e-6;  // more with clusters
constexpr double kUntriedClusters = 1.2;  // no GPU has shown them faster: tuning tries them, an untuned choice does not
constexpr double kCopySeconds = 0.9e-6;   // of a copy from memory: a ring of stages brings itself in that time
constexpr double kStepCycles = 60;        // of barriers, a tile of K
constexpr double kApartCycles = 60;       // more where it is summed apart
constexpr double kTileCycles = 900;       // from the last product to the first byte of D
constexpr double kTallTileCycles = 300;   // from the last sum to the next tile's products
constexpr double kBytesOfDACycle = 40;
constexpr double kSharpnessOfGroups = 6;  // of the maximum

}  // namespace

double grouped_gemm_sm90_cost(const GroupedGemmProblem& p, const DeviceSpec& device, const GroupedGemmSm90Config& c,
                              bool counted) {
  const double groups = std::max(1.0, likely_groups(p));
  const int rows_of_group = static_cast<int>(std::max(1.0, std::ceil(static_cast<double>(p.likely_rows()) / groups)));
  const GroupedRows cut = grouped_rows(rows_of_group, c.step, c.tokens);
  const int tokens = grouped_piece(cut, 0, c.step).steps * c.step;
  const bool tall = c.tall == GroupedTall::kTokens;
  const int pieces = c.promote != Promotion::kNone ? tokens / grouped_apart_tokens(tokens) : 1;
  const MmaSpec* mma = sm90_wgmma(*device.arch, c.dtype, 16);
  const double rate = mma != nullptr ? mma->ops_per_cycle : 1;

  const double rows = c.rows, tile_k = kSkinnyRowBytes * 8.0 / dtype_bits(c.dtype);
  const double steps = std::ceil(static_cast<double>(p.gemm.k) / (tile_k * c.depth)) * c.depth;
  const double products = 2 * rows * tokens * tile_k / rate;
  // Lines of 128 bytes, one a cycle: each product reads its 64 rows and its columns, copies write both once. Scales of columns
  // are two floats of each thread for eight columns; those of rows count for nothing.
  const double product_lines =
      tall ? tokens / 64.0 * (rows / kGroupedTallColumns * 64 + rows) : rows / 64 * (64.0 * pieces + tokens);
  const double scale_lines = c.promote == Promotion::kScaled && !tall ? rows / 64 * tokens : 0;
  const double lines = product_lines + scale_lines + rows + tokens;
  const double apart = c.promote != Promotion::kNone ? kApartCycles : 0;
  const double cycles = std::max(products, lines) + (kStepCycles + apart) / c.depth;
  // Written beside the next tile where tokens are on the tall side.
  const double d_bytes = tall ? 0
                              : static_cast<double>(tokens) *
                                    gemm_sm90_skinny_d_columns(grouped_sm90_product(c, c.tokens)) *
                                    dtype_bits(c.d_dtype) / 8;
  const double tile = (steps * cycles + (tall ? kTallTileCycles : kTileCycles) + d_bytes / kBytesOfDACycle) /
                      (clock_hz(device) * kClockShareOfGroups);
  // Of clusters; whose blocks bring the same tokens once.
  const double clusters = std::max(1, device.units / c.cluster);
  const double tiles = std::ceil(groups * cut.tiles) * grouped_sm90_cluster_columns(c, p.gemm.n);
  const double brought = tiles * steps * (rows * c.cluster + tokens) * kSkinnyRowBytes;
  // The last tiles: by turns everybody waits for the longest row, from a counter for half a tile.
  const double rounds = counted ? std::max(1.0, tiles / clusters + 0.5) : std::ceil(tiles / clusters);

  const double streams[] = {grouped_gemm_bytes_moved(p) / (kMemoryShareOfGroups * memory_bytes_per_second(device)),
                            brought / kCacheBytesPerSecondOfGroups, rounds * tile,
                            tiles / clusters * steps / (c.depth * c.stages) * kCopySeconds};
  double stream = 0;
  for (const double seconds : streams) stream += std::pow(seconds, kSharpnessOfGroups);
  const double seconds = kFixedSecondsOfGroups + std::pow(stream, 1 / kSharpnessOfGroups);
  return c.cluster > 1 ? (seconds + kClusterSecondsOfGroups) * kUntriedClusters : seconds;
}

}  // namespace tilewright
