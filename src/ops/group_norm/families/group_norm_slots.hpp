// SPDX-License-Identifier: MIT
// How clusters of sm_90a share slabs of groups that stay in their shared memory (kernels/group_norm/group_norm_slots.cuh).
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "ops/group_norm/families/group_norm_families.hpp"

namespace tilewright {

// Of an SM, by their registers: those of a gradient, channels last, have sums and factors of eight channels.
constexpr int group_slot_threads(bool backward, bool channels_last) { return backward && channels_last ? 512 : 1024; }

struct GroupSlotPlan {
  int64_t width, slabs;  // channels of a slab, slabs of an image
  int64_t across;        // pieces of a line: of a channel, channels last of a position
  int64_t span;          // of a block: pieces, channels last positions
  int64_t below, turns;  // see GroupNormSlots
  int lane_bits;
  int64_t shared_bytes;
  int64_t blocks;
};
// Nothing where a cluster's memory has no room for a slab, or a piece is of more than two groups.
std::optional<GroupSlotPlan> plan_group_slots(const GroupNormProblem& problem, const GroupNormConfig& config,
                                              const DeviceSpec& device);

// Blocks of a cluster, and threads of a block, of all kernels that there are.
std::span<const std::pair<int, int>> group_slot_shapes();
double predict_group_slots(const GroupNormProblem& problem, const GroupNormConfig& config, const GroupSlotPlan& plan,
                           const DeviceSpec& device);

// Of the stage that takes slabs.
void set_group_slots(Stage& stage, const GroupNormProblem& problem, const GroupNormConfig& config,
                     const GroupSlotPlan& plan);

}  // namespace tilewright
