// SPDX-License-Identifier: MIT
#include "device/cuda/limits/peak_probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "tile/common/probe_args.hpp"

namespace tilewright::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBurstSeconds = 16e-3;  // shorter than the chip takes to lower its clock
constexpr double kRestSeconds = 0.3;     // until it is as before
constexpr int kBursts = 3;

// Of the launches that follow each other: those of the second half of the time.
Result<double> sustained_us(Burst& burst, double seconds) {
  const Clock::time_point start = Clock::now();
  std::vector<double> us;
  do {
    const Result<double> one = burst.run();
    if (!one) return one.status();
    us.push_back(*one);
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  double sum = 0;
  const size_t half = us.size() / 2;
  for (size_t i = half; i < us.size(); ++i) sum += us[i];
  return sum / static_cast<double>(us.size() - half);
}

class Peaks {
 public:
  Peaks(Device& device, double seconds, const ProbeCompiler& compile)
      : device_(device), seconds_(seconds), compile_(compile) {}

  Status measure(const MmaSpec& mma, DeviceLimits::Peak& peak) {
    const bool wgmma = mma.name == "wgmma";
    const std::string type = mma.input == DType::kBf16 ? "kBf16" : mma.input == DType::kI8 ? "kI8" : "kF8E4M3";
    const std::string entry = fmt::format("tw_probe_{}", peak_name(mma));
    const std::string source = fmt::format(
        "#include \"tile/{4}/peak_probe.cuh\"\n"
        "extern \"C\" __global__ void __launch_bounds__({1}) {2}(const __grid_constant__ tilewright::PeakProbeArgs "
        "args) {{\n"
        "  tilewright::{0}::multiply_all<tilewright::DType::{3}>(args);\n"
        "}}\n",
        wgmma ? "sm90" : "portable", wgmma ? kWgmmaProbeThreads : kMmaProbeThreads, entry, type,
        wgmma ? "sm90" : "portable/probes");
    const Result<Artifact> artifact = compile_(source, entry, device_.spec().arch->target);
    if (!artifact) return artifact.status();
    const Result<std::shared_ptr<const LoadedKernel>> kernel = device_.load(*artifact);
    if (!kernel) return kernel.status();

    // Operations of a round of a unit, and of a launch of about kBurstSeconds at the unit's nominal rate.
    const int blocks = wgmma ? 1 : kMmaProbeBlocks;
    const double bits = dtype_bits(mma.input);
    const double round =
        wgmma ? 2.0 * kWgmmaProbeRows * kWgmmaProbeColumns * kWgmmaProbeStages * (kWgmmaProbeRowBytes * 8 / bits)
              : 2.0 * 16 * 8 * kMmaProbeSteps * (32 * 8 / bits) * kMmaProbeTiles * kMmaProbeWarps * blocks;
    const double clock = device_.spec().clock_ghz > 0 ? device_.spec().clock_ghz : 1.5;
    const PeakProbeArgs args{
        std::max<int64_t>(1, std::llround(kBurstSeconds * clock * 1e9 * mma.ops_per_cycle / round)), nullptr};
    const auto gflops = [&](int units, double us) {
      return round * static_cast<double>(args.rounds) * units / us * 1e-3;
    };
    const auto burst_of = [&](int units) {
      const LaunchShape shape{.grid = {static_cast<uint32_t>(units * blocks), 1, 1},
                              .threads = static_cast<uint32_t>(wgmma ? kWgmmaProbeThreads : kMmaProbeThreads),
                              .shared_bytes = wgmma ? static_cast<uint32_t>(kWgmmaProbeSharedBytes) : 0};
      const auto call = [&, shape](int, const LaunchContext& context) {
        return device_.launch(**kernel, std::as_bytes(std::span(&args, 1)), shape, context);
      };
      return device_.make_burst(call, 0, 1);
    };

    Result<std::unique_ptr<Burst>> all = burst_of(device_.spec().units), one = burst_of(1);
    if (!all || !one) return all ? one.status() : all.status();
    for (int i = 0; i < kBursts; ++i) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(kRestSeconds, seconds_ / 5)));
      const Result<double> us = (*all)->run();
      if (!us) return us.status();
      peak.gflops_all = std::max(peak.gflops_all, gflops(device_.spec().units, *us));
    }
    const Result<double> long_us = sustained_us(**all, std::max(kBurstSeconds, seconds_ / 4));
    if (!long_us) return long_us.status();
    peak.gflops_sustained = gflops(device_.spec().units, *long_us);
    const Result<double> one_us = (*one)->run();
    if (one_us) peak.gflops_unit = gflops(1, *one_us);
    return one_us.status();
  }

 private:
  Device& device_;
  const double seconds_;
  const ProbeCompiler& compile_;
};

}  // namespace

Status measure_peaks(Device& device, double seconds, const ProbeCompiler& compile,
                     std::vector<DeviceLimits::Peak>& peaks) {
  // The last of a type with a rate: wgmma stands behind mma.sync, larger shapes behind smaller ones.
  std::vector<const MmaSpec*> probed;
  for (const DType type : {DType::kBf16, DType::kF8E4M3, DType::kI8}) {
    const MmaSpec* best = nullptr;
    for (const MmaSpec& mma : device.spec().arch->mma) {
      const bool known = mma.name == "wgmma" || mma.name == "mma";
      if (known && mma.input == type && mma.ops_per_cycle > 0) best = &mma;
    }
    if (best != nullptr) probed.push_back(best);
  }
  for (const MmaSpec* mma : probed) {
    DeviceLimits::Peak peak;
    peak.mma = peak_name(*mma);
    Peaks measurement(device, seconds / static_cast<double>(probed.size()), compile);
    if (Status s = measurement.measure(*mma, peak); !s) return s;
    peaks.push_back(std::move(peak));
  }
  return {};
}

}  // namespace tilewright::cuda
