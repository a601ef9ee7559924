// SPDX-License-Identifier: MIT
#include "ops/group_norm/families/group_norm_slots.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tilewright {
namespace {

constexpr int64_t kMostIndex = (int64_t{1} << 31) - 1;  // of what kernels count in 31 bits
constexpr int64_t kReservedBytes = 1024;                // of shared memory, a block
constexpr int64_t kLineBytes = 64;                      // of a position in a slab, at least: two sectors

int64_t quotient_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

// Channels last: whole groups, whole pieces, lines that are worth a load. 0: there are none, or a piece has three groups.
int64_t slab_channels(const GroupNormProblem& p, int threads) {
  const int64_t of_group = p.channels / p.groups;
  if (of_group < kRowPiece - 1 && of_group != kRowPiece / 2) return 0;
  const int64_t whole = std::lcm(of_group, int64_t{kRowPiece});
  const int64_t lines = quotient_up(kLineBytes, whole * dtype_bits(p.dtype) / 8);
  const int64_t width = std::min(whole * lines, p.channels);
  return width / of_group <= kGroupSlotGroups && width <= int64_t{kRowPiece} * threads ? width : 0;
}

// Of x, by an SM; of a gradient beside as many of dy.
double slot_bytes_per_second(const GroupNormProblem& p) {
  const bool last = p.channels_last != 0;
  if (p.backward == 0) return last ? 1.1e10 : 1.3e10;
  return (last ? 4.2e9 : 5.9e9) * (p.dtype == DType::kF32 ? 0.85 : 1);
}

}  // namespace

std::optional<GroupSlotPlan> plan_group_slots(const GroupNormProblem& p, const GroupNormConfig& config,
                                              const DeviceSpec& device) {
  if (p.elements() == 0 || !config.whole) return std::nullopt;
  GroupSlotPlan plan{};
  const int64_t of_group = p.channels / p.groups;
  if (p.channels_last != 0) {
    plan.width = slab_channels(p, config.threads);
    if (plan.width == 0 || p.positions > kMostIndex) return std::nullopt;
    plan.across = plan.width / kRowPiece, plan.below = config.threads / plan.across;
    plan.span = quotient_up(p.positions, config.cluster), plan.turns = quotient_up(plan.span, plan.below);
  } else {
    plan.width = of_group, plan.across = p.positions / kRowPiece, plan.below = 1;
    if (plan.across == 0 || of_group > kMostIndex / plan.across) return std::nullopt;
    plan.span = quotient_up(of_group * plan.across, config.cluster);
    if (p.backward != 0) {
      // Lanes whose pieces are of one channel are those of one block.
      plan.lane_bits =
          std::min(std::countr_zero(static_cast<uint64_t>(plan.across)), std::countr_zero(uint64_t{kRowLanes}));
      plan.span = quotient_up(plan.span, int64_t{1} << plan.lane_bits) << plan.lane_bits;
    }
    plan.turns = quotient_up(plan.span, config.threads);
    if (p.backward != 0 && plan.turns > int64_t{kGroupSlotPartBytes / kChannelSumBytes} << plan.lane_bits)
      return std::nullopt;
  }
  plan.slabs = quotient_up(p.channels, plan.width);
  if (plan.turns > kMostIndex || plan.width > kMostIndex) return std::nullopt;
  plan.shared_bytes = p.backward != 0
                          ? group_gradient_slot_bytes(p.dtype, config.threads, config.cluster, plan.width, plan.turns)
                          : group_slot_bytes(p.dtype, config.threads, plan.width, plan.turns);
  if (plan.shared_bytes > device.arch->shared_bytes || p.images > kMostIndex / config.cluster / plan.slabs)
    return std::nullopt;
  plan.blocks = p.images * plan.slabs * config.cluster;
  return plan;
}
std::span<const std::pair<int, int>> group_slot_shapes() {
  static constexpr std::pair<int, int> kShapes[] = {{1, 256}, {2, 256}, {4, 256}, {6, 256}, {8, 256},
                                                    {1, 512}, {2, 512}, {4, 512}, {6, 512}, {8, 512}};
  return kShapes;
}

// An SM takes so many bytes a second, a block after another. Where blocks are more than run at a time and their memory has room for several,
// one is read while others are written.
double predict_group_slots(const GroupNormProblem& p, const GroupNormConfig& config, const GroupSlotPlan& plan,
                           const DeviceSpec& device) {
  constexpr double kLaunchSeconds = 4e-6, kExchangeSeconds = 0.5e-6, kAlone = 0.25, kWrongThreads = 1.25;
  constexpr double kPlaced = 0.91;  // of SMs, by larger clusters: those of one share a part of the chip
  constexpr int kManyRounds = 3, kManyTurns = 8;
  const int cluster = config.cluster;
  const double at_once = std::max(1.0, std::floor(device.units * (cluster > 2 ? kPlaced : 1.0) / cluster));
  const double exact = static_cast<double>(plan.blocks) / cluster / at_once;
  const int64_t room = (device.arch->shared_bytes + kReservedBytes) / (plan.shared_bytes + kReservedBytes);
  const auto residents = static_cast<double>(
      std::clamp<int64_t>(room, 1, group_slot_threads(p.backward != 0, p.channels_last != 0) / config.threads));
  const double rounds = (exact > kManyRounds ? exact : std::ceil(exact)) * (exact > 1 ? 1 + kAlone / residents : 1);
  const double block_bytes = static_cast<double>(plan.width * p.positions * dtype_bits(p.dtype)) / 8 / cluster;
  const int exchanges = cluster == 1 ? 0 : p.backward != 0 ? 2 : 1;
  const double seconds = kLaunchSeconds * (p.has_column_gradients() ? 1.5 : 1) + kExchangeSeconds * exchanges +
                         rounds * block_bytes / slot_bytes_per_second(p);
  // More threads where a block has its SM for itself, or with one other, and they have pieces enough.
  const int enough = p.backward != 0 && p.channels_last != 0 ? 1 : 2;
  const bool few = std::min(static_cast<double>(room), std::ceil(exact)) <= enough;
  const bool many_threads = few && plan.turns * config.threads >= int64_t{kManyTurns} * 256;
  return seconds * (many_threads == (config.threads > 256) ? 1 : kWrongThreads);
}

void set_group_slots(Stage& stage, const GroupNormProblem& p, const GroupNormConfig& config,
                     const GroupSlotPlan& plan) {
  GroupNormArgs args;
  std::memcpy(&args, stage.args.data(), sizeof(args));
  const auto by = [](int64_t number) { return denominator(static_cast<unsigned>(number)); };
  args.step = GroupNormStep::kWhole;
  args.width = plan.width, args.span = plan.span;
  args.line_pieces = by(plan.across);
  args.slots = {by(plan.slabs), by(p.channels / p.groups), by(plan.below), static_cast<int>(plan.turns),
                static_cast<unsigned>(plan.lane_bits)};
  std::memcpy(stage.args.data(), &args, sizeof(args));
  stage.shape.grid = {static_cast<uint32_t>(plan.blocks), 1, 1};
  stage.shape.cluster = {static_cast<uint32_t>(config.cluster), 1, 1};
  stage.shape.threads = static_cast<uint32_t>(config.threads);
  stage.shape.shared_bytes = static_cast<uint32_t>(plan.shared_bytes);
}

}  // namespace tilewright
