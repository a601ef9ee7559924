// SPDX-License-Identifier: MIT
// Bursts of several sides in turn: ours, the peers', the limit's. What two sides took in the same round makes a pair, so
// that a machine that slows down slows both.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "dispatch/plan.hpp"
#include "dispatch/problem_instance.hpp"
#include "peer/peer.hpp"
#include "tuning/measure.hpp"

namespace tilewright::cli {

// Median time of one call, in us, over so many calls.
using BurstSide = std::function<Result<double>(int repetitions)>;

BurstSide plan_side(Device& device, const Plan& plan, ProblemInstance& instance);
BurstSide peer_side(Peer& peer, const PeerRequest& request);

// Rounds for about `seconds`, at least seven. The first side's pace sets how long a burst is. One timing a side, in
// order; sample i of each was taken in round i. The first error ends it; `failed` then tells whose it was.
Result<std::vector<Timing>> measure_bursts(std::span<const BurstSide> sides, double seconds, size_t* failed = nullptr);

}  // namespace tilewright::cli
