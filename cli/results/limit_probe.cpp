// SPDX-License-Identifier: MIT
#include "results/limit_probe.hpp"

#include <algorithm>

#include "command.hpp"
#include "jit/compiler.hpp"
#include "tuning/measure.hpp"

namespace tilewright::cli {

void LimitProbe::measure(double seconds) {
  if (refused_) return;
  Result<DeviceLimits> limits = device_.measure_limits(seconds, compile_probe);
  if (limits) {
    merge_limits(*limits, limits_);
  } else {
    refused_ = true;
    note(limits.status().message());
  }
}

void note_warm_weights(const std::vector<NamedProblem>& problems, const DeviceSpec& spec, int sides) {
  const bool cold = std::all_of(problems.begin(), problems.end(), [&](const NamedProblem& problem) {
    return rotations_for(*problem.op, problem.ref(), spec, sides).cold;
  });
  if (!cold) {
    note(
        "memory is short: weights are timed in fewer copies and may stay in the last-level cache; shares of the limit "
        "may pass 100 %");
  }
}

void merge_limits(const DeviceLimits& from, DeviceLimits& into) {
  into.read_gbps_unit = std::max(into.read_gbps_unit, from.read_gbps_unit);
  into.read_gbps_all = std::max(into.read_gbps_all, from.read_gbps_all);
  into.copy_gbps_all = std::max(into.copy_gbps_all, from.copy_gbps_all);
  into.launch_us = into.launch_us > 0 ? std::min(into.launch_us, from.launch_us) : from.launch_us;
  into.graph_node_us = into.graph_node_us > 0 ? std::min(into.graph_node_us, from.graph_node_us) : from.graph_node_us;
  for (const DeviceLimits::Peak& peak : from.peaks) {
    const auto known = std::find_if(into.peaks.begin(), into.peaks.end(),
                                    [&peak](const DeviceLimits::Peak& p) { return p.mma == peak.mma; });
    if (known == into.peaks.end()) {
      into.peaks.push_back(peak);
    } else {
      known->gflops_unit = std::max(known->gflops_unit, peak.gflops_unit);
      known->gflops_all = std::max(known->gflops_all, peak.gflops_all);
      known->gflops_sustained = std::max(known->gflops_sustained, peak.gflops_sustained);
    }
  }
}

}  // namespace tilewright::cli
