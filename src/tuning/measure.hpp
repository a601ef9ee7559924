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
};

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
