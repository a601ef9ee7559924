// SPDX-License-Identifier: MIT
#include "tuning/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "device/host_memory.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRotations = 1024;
constexpr int64_t kMaxRepeats = 100000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int kMaxGraphCalls = 2000;
// What heats a GPU: more operations a second, for longer.
constexpr double kHotTflops = 200, kHotUs = 15;
// A burst is shorter than the chip takes to lower its clock; after a rest so many times as long it is as before.
constexpr double kHotGraphUs = 8000, kHotRest = 8;

// A sample of one member: `repeats` calls, each with the next turn.
struct Member {
  const TimedCall* call;
  int64_t repeats = 1;

  Result<double> sample(int& turn) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < repeats; ++i) {
      if (Status s = (*call)(turn++); !s) return s;
    }
    return seconds_since(start) * 1e6 / static_cast<double>(repeats);
  }
};

// As many rounds as the time allows, between the bounds. A round takes `round_us`.
Result<std::vector<Timing>> take_rounds(std::span<const TimedSample> members, Clock::time_point start, double round_us,
                                        const MeasureOptions& options) {
  std::vector<Timing> timings(members.size());
  if (members.empty()) return timings;
  const double total = options.seconds * static_cast<double>(members.size());
  const int least = std::max(1, options.min_samples);
  double sample_seconds = 0;
  for (int round = 0; round < std::max(least, options.max_samples);) {
    if (round >= least && seconds_since(start) + round_us * 1e-6 > total) break;
    const bool counts = !options.sustained || seconds_since(start) > total / 2;
    for (size_t i = 0; i < members.size(); ++i) {
      if (options.rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(options.rest * sample_seconds));
      const Clock::time_point begun = Clock::now();
      Result<double> us = members[i]();
      if (!us) return us.status();
      sample_seconds = seconds_since(begun);
      if (counts) timings[i].sample_us.push_back(*us);
    }
    round += counts ? 1 : 0;
  }
  for (Timing& timing : timings) summarise(timing);
  return timings;
}

}  // namespace

bool heats(double operations, double us) { return us > kHotUs && operations / us * 1e-6 > kHotTflops; }

MeasureOptions rested_bursts(double seconds) {
  return {.seconds = seconds, .min_samples = 5, .max_samples = 101, .graph_us = kHotGraphUs, .rest = kHotRest};
}

MeasureOptions sustained_calls(double seconds) {
  return {.seconds = seconds, .min_samples = 5, .max_samples = 1001, .graph_us = kHotGraphUs, .sustained = true};
}

double quantile(std::span<const double> sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void summarise(Timing& timing) {
  if (timing.sample_us.empty()) return;
  std::vector<double> sorted = timing.sample_us;
  std::sort(sorted.begin(), sorted.end());
  timing.us = quantile(sorted, 0.5);
  if (timing.us > 0) timing.spread = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / timing.us;
}

Result<std::vector<Timing>> measure_calls(std::span<const TimedCall> calls, const MeasureOptions& options) {
  const Clock::time_point start = Clock::now();
  std::vector<TimedSample> members;
  int turn = 0;
  double round_us = 0;
  for (const TimedCall& call : calls) {
    Member member{&call, 1};
    // Warm-up: the first call brings in code and pages; those after it say how long one takes.
    if (Result<double> first = member.sample(turn); !first) return first.status();
    Result<double> probe = member.sample(turn);
    if (!probe) return probe.status();
    if (*probe * 4 < options.min_sample_us) {
      member.repeats = 8;
      probe = member.sample(turn);
      if (!probe) return probe.status();
    }
    member.repeats = std::clamp<int64_t>(std::llround(options.min_sample_us / std::max(*probe, 1e-3)), 1, kMaxRepeats);
    round_us += *probe * static_cast<double>(member.repeats);
    members.push_back([member, &turn]() mutable { return member.sample(turn); });
  }
  return take_rounds(members, start, round_us, options);
}

Result<std::vector<Timing>> measure_graphs(Device& device, std::span<const TurnedCall> calls, int copies,
                                           const MeasureOptions& options, std::span<const TimedSample> others) {
  const Clock::time_point start = Clock::now();
  std::vector<std::unique_ptr<Burst>> bursts;
  std::vector<TimedSample> members;
  double round_us = 0;
  for (const TurnedCall& call : calls) {
    double us = 0;
    Result<std::unique_ptr<Burst>> burst = device.make_burst(call, 0, 1);
    // The first run brings in code; the second says how long one takes.
    for (int i = 0; i < 2; ++i) {
      if (!burst) return burst.status();
      Result<double> probe = (*burst)->run();
      if (!probe) return probe.status();
      us = std::max(*probe, 1e-2);
    }
    const int count = std::clamp(static_cast<int>(std::ceil(options.graph_us / us)), copies, kMaxGraphCalls);
    burst = device.make_burst(call, 0, count);
    if (!burst) return burst.status();
    round_us += us * count * (1 + options.rest);
    members.push_back([burst = burst->get()] { return burst->run(); });
    bursts.push_back(std::move(*burst));
  }
  members.insert(members.end(), others.begin(), others.end());
  return take_rounds(members, start, round_us, options);
}

Result<std::vector<Timing>> measure_plans(Device& device, std::span<const std::shared_ptr<const Plan>> plans,
                                          ProblemInstance& instance, const MeasureOptions& options,
                                          const LaunchContext& launch) {
  const int copies = std::max(1, instance.rotations());
  if (!device.host_memory()) {
    std::vector<TurnedCall> turned;
    for (const std::shared_ptr<const Plan>& plan : plans) {
      turned.push_back([&, plan](int turn, const LaunchContext& stream) {
        return run_plan_in_row(device, *plan, instance.bindings(turn % copies), stream);
      });
    }
    return measure_graphs(device, turned, copies, options);
  }
  std::vector<TimedCall> calls;
  for (const std::shared_ptr<const Plan>& plan : plans) {
    calls.push_back([&, plan](int turn) { return run_plan(device, *plan, instance.bindings(turn % copies), launch); });
  }
  return measure_calls(calls, options);
}

int copies_for(double bytes, int64_t footprint) {
  return static_cast<int>(
      std::clamp<double>(std::ceil(static_cast<double>(footprint) / std::max(1.0, bytes)), 1, kMaxRotations));
}

Rotations rotations_for(const Operator& op, ProblemRef problem, const DeviceSpec& spec, int sides) {
  const ColdFootprint footprint = cold_footprint(spec, 0.5 / std::max(1, sides));
  const double bytes = op.bytes_moved(problem);
  Rotations rotations{copies_for(bytes, footprint.bytes), true};
  rotations.cold = footprint.cold() || rotations.copies == copies_for(bytes, footprint.wanted);
  return rotations;
}

PairedRatio paired_ratio(const Timing& base, const Timing& other) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(base.sample_us.size(), other.sample_us.size()); ++i) {
    if (other.sample_us[i] > 0) ratios.push_back(base.sample_us[i] / other.sample_us[i]);
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  // The median lies between these order statistics with 95% (normal approximation of the binomial); few samples say
  // nothing more than their range.
  const double n = static_cast<double>(ratios.size()), reach = 0.98 * std::sqrt(n);
  const double last = n - 1;
  const double low = std::clamp(std::floor(n / 2 - reach), 0.0, last),
               high = std::clamp(std::ceil(n / 2 + reach) - 1, 0.0, last);
  return {quantile(ratios, 0.5), ratios[static_cast<size_t>(low)], ratios[static_cast<size_t>(high)]};
}

}  // namespace tilewright
