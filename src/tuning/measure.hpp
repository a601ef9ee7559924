// SPDX-License-Identifier: MIT
// Timing: interleaved groups of calls (A B C A B C ...), cold operands by rotation, medians with their spread. What two
// timings of one group say about each other is read from their pairs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dispatch/operator.hpp"
#include "dispatch/plan.hpp"
#include "dispatch/problem_instance.hpp"

namespace tilewright {

struct MeasureOptions {
  double seconds = 0.3;  // for each member of the group, warm-up included
  int min_samples = 7;   // taken even when `seconds` is over
  int max_samples = 301;
  double min_sample_us = 50;  // shorter calls are repeated until a sample takes this long
  // On a GPU, where a sample is a replay of a graph of calls.
  double graph_us = 500;   // how long it takes
  double rest = 0;         // before a sample: so many times as long as the sample before it took
  bool sustained = false;  // what the first half of the time shows does not count
};

// Full-rate tensor work makes a GPU lower its clock within a tenth of a second, and by a sixth. Problems that do so
// are timed in bursts of a rested chip, and apart from them sustained.
bool heats(double operations, double us);
enum class TimeMode : uint8_t { kPlain, kRested, kSustained };
MeasureOptions rested_bursts(double seconds);
MeasureOptions sustained_calls(double seconds);

struct Timing {
  double us = 0;      // median of the samples: one call
  double spread = 0;  // interquartile range / median
  std::vector<double> sample_us;
  int samples() const { return static_cast<int>(sample_us.size()); }
};

// Median and spread from the samples.
void summarise(Timing& timing);

// One call; `turn` counts up over the whole group, so that no member finds in the caches what another one left there.
using TimedCall = std::function<Status(int turn)>;
// Sample i of every member was taken in round i. The first error ends the measurement.
Result<std::vector<Timing>> measure_calls(std::span<const TimedCall> calls, const MeasureOptions& options);

// The same for plans of one problem; the turn chooses the copy of the read-only operands. On a GPU a sample is a replay of
// a graph of calls between two events of the device.
Result<std::vector<Timing>> measure_plans(Device& device, std::span<const std::shared_ptr<const Plan>> plans,
                                          ProblemInstance& instance, const MeasureOptions& options,
                                          const LaunchContext& launch = {});
// The same on a GPU for calls of any kind: each takes its turn's operands out of `copies`. Behind them in each round come
// `others`, who time themselves: another process, say.
using TimedSample = std::function<Result<double>()>;  // microseconds a call
Result<std::vector<Timing>> measure_graphs(Device& device, std::span<const TurnedCall> calls, int copies,
                                           const MeasureOptions& options, std::span<const TimedSample> others = {});

// How many copies of a problem's operands, used in turn, come from memory every time: enough to fill the cold footprint
// (device/host_memory.hpp). For InstanceOptions::rotations. `sides` that keep copies at the same time share half of the
// free memory.
struct Rotations {
  int copies = 1;
  bool cold = true;  // false: memory is short, and a part of the copies may stay in the last-level cache
};
Rotations rotations_for(const Operator& op, ProblemRef problem, const DeviceSpec& spec, int sides = 1);
// The same with the footprint given.
int copies_for(double bytes, int64_t footprint);

// base / other, paired round by round: above 1, `other` is faster. The median with its 95% interval (order statistics).
struct PairedRatio {
  double ratio = 0, low = 0, high = 0;
};
PairedRatio paired_ratio(const Timing& base, const Timing& other);

// Linear interpolation between order statistics; `sorted` is not empty.
double quantile(std::span<const double> sorted, double q);

}  // namespace tilewright
