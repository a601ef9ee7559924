// SPDX-License-Identifier: MIT
#include "peer/bursts.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tilewright::cli {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace

namespace {

// A graph of calls, long enough that what lies around it does not count; made at the first burst.
BurstSide graph_side(Device& device, const Plan& plan, ProblemInstance& instance) {
  constexpr double kGraphUs = 500;
  const auto call = [&](int turn, const LaunchContext& stream) {
    return run_plan_in_row(device, plan, instance.bindings(turn % std::max(1, instance.rotations())), stream);
  };
  return [&device, &instance, call, burst = std::shared_ptr<Burst>()](int repetitions) mutable -> Result<double> {
    if (burst == nullptr) {
      Result<std::unique_ptr<Burst>> one = device.make_burst(call, 0, 1);
      if (!one) return one.status();
      for (int i = 0; i < 2; ++i) {
        Result<double> us = (*one)->run();
        if (!us) return us.status();
        if (i == 0) continue;
        const int count = std::clamp(static_cast<int>(kGraphUs / std::max(*us, 1e-2)), instance.rotations(), 2000);
        one = device.make_burst(call, 0, std::max(1, count));
        if (!one) return one.status();
      }
      burst = std::move(*one);
    }
    std::vector<double> us;
    for (int i = 0; i < repetitions; ++i) {
      Result<double> one = burst->run();
      if (!one) return one.status();
      us.push_back(*one);
    }
    return median(std::move(us));
  };
}

}  // namespace

BurstSide plan_side(Device& device, const Plan& plan, ProblemInstance& instance) {
  if (!device.host_memory()) return graph_side(device, plan, instance);
  return [&device, &plan, &instance, turn = 0](int repetitions) mutable -> Result<double> {
    const auto call = [&] {
      return run_plan(device, plan, instance.bindings(turn++ % std::max(1, instance.rotations())), {});
    };
    // The call before the first timed one wakes the threads, on every side.
    if (Status s = call(); !s) return s;
    std::vector<double> us;
    for (int i = 0; i < repetitions; ++i) {
      const Clock::time_point before = Clock::now();
      if (Status s = call(); !s) return s;
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    return median(std::move(us));
  };
}

BurstSide peer_side(Peer& peer, const PeerRequest& request) {
  return [&peer, request = PeerRequest(request)](int repetitions) mutable {
    request.repetitions = repetitions;
    return peer.burst(request);
  };
}

Result<std::vector<Timing>> measure_bursts(std::span<const BurstSide> sides, double seconds, size_t* failed) {
  constexpr int kMinRounds = 7, kMaxRounds = 101, kMaxRepetitions = 15;
  const auto run = [&](size_t side, int repetitions) {
    if (failed != nullptr) *failed = side;
    return sides[side](repetitions);
  };
  // Tensors are made and pages touched outside the time; bursts are as long as keeps the clock's error small.
  double first_us = 0;
  for (size_t i = 0; i < sides.size(); ++i) {
    Result<double> us = run(i, 1);
    if (!us) return us.status();
    if (i == 0) first_us = *us;
  }
  const int repetitions = static_cast<int>(std::clamp(
      seconds * 1e6 / (2 * kMinRounds * static_cast<double>(sides.size()) * first_us), 1.0, double{kMaxRepetitions}));

  // Threads that spin after a call must be asleep before the next side's turn: libgomp's take 300000 pauses, which are milliseconds.
  constexpr auto kRest = std::chrono::milliseconds(15);
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<Timing> timings(sides.size());
  for (int round = 0; round < kMaxRounds && (round < kMinRounds || elapsed() < seconds); ++round) {
    // Every round starts with another side, so that no side always follows the same one.
    for (size_t i = 0; i < sides.size(); ++i) {
      const size_t side = (i + static_cast<size_t>(round)) % sides.size();
      std::this_thread::sleep_for(kRest);
      Result<double> us = run(side, repetitions);
      if (!us) return us.status();
      timings[side].sample_us.push_back(*us);
    }
  }
  for (Timing& timing : timings) summarise(timing);
  return timings;
}

}  // namespace tilewright::cli
