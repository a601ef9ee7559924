// SPDX-License-Identifier: MIT
// The slowest of five streams, rounded where they meet: memory for all weights; the second level of cache for what all blocks
// ask of it; instructions that widen weights; products; scales on their way. Then the exchange of sums, and D. Instructions are
// counted in what NVRTC makes; what they share with gemm_sm90_skinny has that model's constants.
#include "ops/gemm/families/cuda/sm90/dequant/gemm_sm90_dequant_cost.hpp"

#include <algorithm>
#include <cmath>

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {
namespace {

constexpr double kMemoryShare = 0.915;            // of the nominal bandwidth
constexpr double kCacheBytesPerSecond = 11.4e12;  // the second level to all SMs
constexpr double kScaleInstructions = 8;          // of a thread, for a scale on its way through shared memory
constexpr double kScaleCycles = 100,
                 kZeroCycles = 70;        // of a warp that brings them, for 32 rows' one scale, zero point
constexpr double kFixedSeconds = 4.5e-6;  // launch, A rearranged, first copies, end
constexpr double kStepSeconds = 0.1e-6;   // at whose end nothing is in flight
constexpr double kExchangeSeconds = 0.12e-6, kMeetingSeconds = 0.12e-6;  // gemm_sm90_skinny's
constexpr double kExchangeByteSeconds = 110e-12;                         // of sums that a block gives away
constexpr double kWriteSumSeconds = 98e-12;                              // from the last product to D
constexpr double kWarpProductCycles = 8;                                 // of 64 rows by 16 of K and 8 tokens
constexpr double kSharpness = 6;                                         // of the maximum

// Of warps, of an SM: four warps a scheduler hide what each waits for, two do not, one still less; three do where one product of each
// follows another.
double instructions_per_cycle(const GemmSm90DequantConfig& c) {
  const int warps = c.warpgroups * c.blocks;  // that multiply, a scheduler
  if (!narrow_weights_promote(c) && (warps == 2 || warps == 3)) return 4 * (warps == 3 ? 0.72 : 0.66);
  return 4 * (warps >= 4 ? 0.70 : warps >= 2 ? 0.55 : 0.35);
}
// Of a thread, for a value of the weights.
double widening_instructions(const GemmSm90DequantConfig& c) {
  const double widen = c.packed ? 1.7 : c.weight == DType::kF4E2M1 ? 2.1 : dtype_bits(c.weight) == 4 ? 1.2 : 2.2;
  if (!narrow_weights_promote(c)) return widen + 0.5;
  // A sum of a group is half as many values of a thread as there are tokens, for half of its rows' group each.
  return widen + 0.6 + static_cast<double>(c.tokens) / c.group;
}

// Equal shares: at a time blocks are at tiles far apart, and so at many entries of the batch. The larger A is beside
// the second level, the more of it is gone, and read again, for each tile.
double tokens_again(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c,
                    const GemmSm90SkinnyCut& cut) {
  if (c.splits != 0 || p.batch == 1 || p.stride_a_batch == 0 || device.l2_bytes <= 0) return 0;
  const double tokens = static_cast<double>(p.batch * cut.chunks) * gemm_sm90_dequant_token_bytes(c);
  const double lost = std::min(1.0, tokens / static_cast<double>(device.l2_bytes));
  return lost * tokens * (static_cast<double>(cut.tiles) / static_cast<double>(p.batch) - 1);
}

}  // namespace

double gemm_sm90_dequant_cost(const GemmProblem& p, const DeviceSpec& device, const GemmSm90DequantConfig& c) {
  const GemmSm90SkinnyCut cut = gemm_sm90_skinny_cut(gemm_sm90_dequant_sums(c), p.n, p.k, p.batch, device.units);
  const auto blocks = static_cast<double>(cut.clusters), splits = static_cast<double>(c.splits);
  // Of the busiest block: steps of K, and tiles of D that it begins or ends.
  const double parts = std::ceil(static_cast<double>(cut.tiles) * splits / blocks);
  const double share = static_cast<double>(cut.share) + (cut.extra > 0 ? 1 : 0);
  // Of a last step that has at most half of its K half is done.
  const int64_t rest = p.k % gemm_sm90_dequant_tile_k(c.weight);
  const bool half = narrow_weights_fold(c) && rest > 0 && rest <= gemm_sm90_dequant_tile_k(c.weight) / 2;
  const double done = half ? 1 - 0.5 / static_cast<double>(cut.chunks) : 1;
  const double steps = done * (c.splits > 0 ? parts * share : share);
  const double writes = c.splits > 0 ? parts : 1 + share / static_cast<double>(cut.chunks);
  const double present = std::min<double>(c.blocks, std::ceil(blocks / std::max(1, device.units)));

  const double tile_k = gemm_sm90_dequant_tile_k(c.weight), sums = static_cast<double>(c.rows) * c.tokens;
  const bool whole = c.scale_row != 0;
  const double instructions =
      c.rows * (tile_k * widening_instructions(c) + (whole ? 0 : gemm_sm90_dequant_groups(c) * kScaleInstructions)) /
      32;
  const double least = gemm_sm90_dequant_by_warp(c) ? kWarpProductCycles : 16;
  const double products = c.rows / 64.0 * tile_k / 16 * std::max(c.tokens / 2.0, least);  // cycles
  // Those who bring scales have a row of each 32, and are not many.
  const double warps = std::max(1, gemm_sm90_dequant_scale_warps(c));
  const double scales = whole ? 0
                              : c.rows / 32.0 / warps * gemm_sm90_dequant_groups(c) *
                                    (kScaleCycles + (c.zero == DType::kNone ? 0 : kZeroCycles));
  const double streams[] = {
      (gemm_bytes_moved(p) + tokens_again(p, device, c, cut)) / (kMemoryShare * memory_bytes_per_second(device)),
      blocks * steps * (gemm_sm90_dequant_weight_bytes(c) + gemm_sm90_dequant_token_bytes(c)) / kCacheBytesPerSecond,
      present * steps * instructions / instructions_per_cycle(c) / clock_hz(device),
      present * steps * products / clock_hz(device), steps * scales / clock_hz(device)};
  double stream = 0;
  for (const double seconds : streams) stream += std::pow(seconds, kSharpness);
  stream = std::pow(stream, 1 / kSharpness);
  if (c.warpgroups * c.blocks == 1) stream += steps * kStepSeconds;

  // Equal shares: who completes a tile takes the parts of it one after another.
  const double others = std::ceil(static_cast<double>(cut.chunks) / std::max(1.0, static_cast<double>(cut.share)));
  const double given = c.splits == 1 ? 0 : sums * 4 * (c.splits == 0 ? others : (splits - 1) / splits);
  const double exchange = c.splits == 1                     ? 0
                          : gemm_sm90_dequant_parts_meet(c) ? kMeetingSeconds
                                                            : kExchangeSeconds + present * given * kExchangeByteSeconds;
  return kFixedSeconds + stream + exchange + present * sums * writes * kWriteSumSeconds;
}

}  // namespace tilewright
