// SPDX-License-Identifier: MIT
// Peaks come from loops in the first level of cache (peak_probes.hpp), bandwidth from one large buffer, all in several short bursts.
#include "device/cpu/limits/cpu_limits.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/limits/memory_probes.hpp"
#include "device/cpu/limits/peak_probes.hpp"
#include "device/cpu/pages.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

// How the budget is shared out.
constexpr double kPeakShare = 0.4;
constexpr double kReadShare = 0.2;  // one unit, and again all units
constexpr double kCopyShare = 0.15;
constexpr double kLaunchShare = 0.05;

double seconds_of(const std::function<void()>& body) {
  const auto begin = Clock::now();
  body();
  return std::max(1e-9, std::chrono::duration<double>(Clock::now() - begin).count());
}

// A limit is what the machine can do, so disturbed bursts must not pull it down, and one lucky burst must not set it: the
// lower quartile of the times (of fifteen, the fourth best).
double lower_quartile(std::vector<double> seconds) {
  const auto chosen = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 4);
  std::nth_element(seconds.begin(), chosen, seconds.end());
  return *chosen;
}

// Undisturbed seconds of one call. At least one call, then until the budget is spent or `most` calls were made.
double undisturbed_seconds(double budget, int most, const std::function<void()>& body) {
  std::vector<double> seconds;
  double spent = 0;
  do {
    seconds.push_back(seconds_of(body));
    spent += seconds.back();
  } while (spent < budget && static_cast<int>(seconds.size()) < most);
  return lower_quartile(std::move(seconds));
}

// How many rounds of the probe take about `burst` seconds. Doubling also gives the clock time to settle.
int64_t rounds_for(const PeakProbe& probe, double burst) {
  int64_t rounds = 64;
  double seconds = 0;
  while ((seconds = seconds_of([&] { probe.run(rounds); })) < burst / 2) rounds *= 2;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rounds) * burst / seconds));
}

// Bursts of all probes take turns over the whole time, so that a disturbance does not hit one instruction alone.
void measure_peaks(DeviceLimits& limits, std::span<const PeakProbe* const> probes, ThreadPool& pool, double budget) {
  constexpr int kTurns = 15;
  struct Series {
    const PeakProbe* probe;
    int64_t rounds;
    std::vector<double> unit, all;
  };
  std::vector<Series> series;
  const uint32_t threads = pool.threads();
  const double burst =
      std::clamp(budget / (2 * kTurns + 4) / static_cast<double>(std::max<size_t>(1, probes.size())), 1e-4, 5e-3);
  for (const PeakProbe* probe : probes) series.push_back({probe, rounds_for(*probe, burst), {}, {}});

  const auto begin = Clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    if (turn != 0 && std::chrono::duration<double>(Clock::now() - begin).count() > budget) break;
    for (Series& one : series) {
      const auto run = [&](uint32_t) { one.probe->run(one.rounds); };
      one.unit.push_back(seconds_of([&] { run(0); }));
      if (threads > 1) one.all.push_back(seconds_of([&] { pool.parallel_for(threads, run); }));
    }
  }
  for (Series& one : series) {
    const double gigaops = static_cast<double>(one.probe->ops_per_round) * static_cast<double>(one.rounds) / 1e9;
    DeviceLimits::Peak peak;
    peak.mma = one.probe->mma;
    peak.gflops_unit = gigaops / lower_quartile(std::move(one.unit));
    peak.gflops_all = threads > 1 ? gigaops * threads / lower_quartile(std::move(one.all)) : peak.gflops_unit;
    limits.peaks.push_back(std::move(peak));
  }
}

void measure_launch(DeviceLimits& limits, ThreadPool& pool, double budget) {
  constexpr int kBatch = 16;
  const auto empty = [](uint32_t) {};
  const auto batch = [&] {
    for (int i = 0; i < kBatch; ++i) pool.parallel_for(pool.threads(), empty);
  };
  batch();
  limits.launch_us = undisturbed_seconds(budget, 1000, batch) / kBatch * 1e6;
}

// The unit's part of `bytes`, in whole pages.
struct Slice {
  int64_t begin, size;
};
Slice slice_of(int64_t bytes, uint32_t unit, uint32_t units) {
  constexpr int64_t kPage = 4096;
  const int64_t pages = bytes / kPage;
  const int64_t begin = pages * unit / units * kPage;
  return {begin, pages * (unit + 1) / units * kPage - begin};
}

// Bursts of every pattern take turns and walk through the buffer, so that each reads what was not read for a whole round;
// the pattern that is fastest on this machine sets the limit.
double best_read_gbps(int64_t bytes, double budget,
                      const std::function<void(int64_t, int64_t, const ReadPattern&)>& read) {
  constexpr int kBursts = 8, kTurns = 15;  // bursts a round; turns of each pattern
  const int64_t burst = bytes / kBursts / 4096 * 4096;
  std::vector<double> seconds[std::size(kReadPatterns)];
  const auto begin = Clock::now();
  int64_t at = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (turn != 0 && std::chrono::duration<double>(Clock::now() - begin).count() > budget) break;
    for (size_t i = 0; i < std::size(kReadPatterns); ++i, at = (at + 1) % kBursts) {
      seconds[i].push_back(seconds_of([&] { read(at * burst, burst, kReadPatterns[i]); }));
    }
  }
  double best = lower_quartile(std::move(seconds[0]));
  for (size_t i = 1; i < std::size(kReadPatterns); ++i) best = std::min(best, lower_quartile(std::move(seconds[i])));
  return static_cast<double>(burst) / 1e9 / best;
}

Status measure_memory(DeviceLimits& limits, const DeviceSpec& spec, ThreadPool& pool, double budget) {
  const MemoryProbe& probe = memory_probe(spec);
  const int64_t bytes = memory_probe_bytes(spec, budget);
  Result<void*> mapped = map_pages(bytes);
  if (!mapped) return mapped.status();
  const std::unique_ptr<void, std::function<void(void*)>> buffer(*mapped,
                                                                 [&](void* data) { unmap_pages(data, bytes); });
  char* const data = static_cast<char*>(buffer.get());

  const auto over_all = [&](int64_t total, const std::function<void(Slice)>& body) {
    pool.parallel_for(pool.threads(), [&](uint32_t unit) { body(slice_of(total, unit, pool.threads())); });
  };
  // The first touch places each part near the thread that reads it.
  over_all(bytes, [&](Slice slice) { std::memset(data + slice.begin, 1, static_cast<size_t>(slice.size)); });

  constexpr int kPasses = 9;
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  const auto read_over = [&](uint32_t units) {
    return best_read_gbps(bytes, kReadShare * budget, [&](int64_t begin, int64_t size, const ReadPattern& pattern) {
      pool.parallel_for(units, [&](uint32_t unit) {
        const Slice slice = slice_of(size, unit, units);
        probe.read(data + begin + slice.begin, slice.size, pattern);
      });
    });
  };
  limits.read_gbps_all = read_over(pool.threads());
  limits.read_gbps_unit = pool.threads() > 1 ? read_over(1) : limits.read_gbps_all;
  // Half of the buffer into the other half: bytes read and bytes written both count.
  const auto copy_all = [&] {
    over_all(bytes / 2,
             [&](Slice slice) { probe.copy(data + bytes / 2 + slice.begin, data + slice.begin, slice.size); });
  };
  limits.copy_gbps_all = gigabytes / undisturbed_seconds(kCopyShare * budget, kPasses, copy_all);
  return {};
}

}  // namespace

Result<DeviceLimits> measure_cpu_limits(const DeviceSpec& spec, ThreadPool& pool, double budget_seconds) {
  const double budget = std::clamp(budget_seconds, 0.0, 3600.0);
  DeviceLimits limits;
  std::vector<const PeakProbe*> probes;
  for (const PeakProbe& probe : peak_probes()) {
    if (spec.arch != nullptr && find_mma(*spec.arch, probe.mma) != nullptr) probes.push_back(&probe);
  }
  measure_peaks(limits, probes, pool, kPeakShare * budget);
  measure_launch(limits, pool, kLaunchShare * budget);
  if (Status status = measure_memory(limits, spec, pool, budget); !status) return status;
  return limits;
}

}  // namespace tilewright
