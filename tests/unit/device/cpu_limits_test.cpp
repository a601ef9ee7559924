// SPDX-License-Identifier: MIT
// The CPU's limits: each instruction of the target has a peak, everything is measured however small the budget is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "device/cpu/clock.hpp"
#include "device/cpu/limits/memory_probes.hpp"
#include "device/cpu/limits/peak_probes.hpp"
#include "device/device.hpp"
#include "device/host_memory.hpp"

namespace tilewright {
namespace {

bool positive(double value) { return std::isfinite(value) && value > 0; }

TEST(CpuLimits, EveryInstructionOfTheTargetHasItsPeak) {
  for (const int units : {1, 2}) {
    auto device = make_cpu_device(units);
    const Result<DeviceLimits> limits = device->measure_limits(0.05, {});
    ASSERT_TRUE(limits.ok()) << limits.status().message();
    std::set<std::string> measured;
    for (const DeviceLimits::Peak& peak : limits->peaks) {
      EXPECT_TRUE(positive(peak.gflops_unit) && positive(peak.gflops_all)) << peak.mma;
      measured.insert(peak.mma);
    }
    std::set<std::string> wanted;
    for (const MmaSpec& mma : device->spec().arch->mma) wanted.emplace(mma.name);
    EXPECT_EQ(measured, wanted);
    EXPECT_TRUE(positive(limits->read_gbps_unit));
    EXPECT_TRUE(positive(limits->read_gbps_all));
    EXPECT_TRUE(positive(limits->copy_gbps_all));
    EXPECT_TRUE(positive(limits->launch_us));
  }
}

TEST(CpuLimits, AZeroOrSenselessBudgetStillMeasures) {
  for (const double budget : {0.0, -1.0}) {
    const Result<DeviceLimits> limits = make_cpu_device(1)->measure_limits(budget, {});
    ASSERT_TRUE(limits.ok()) << limits.status().message();
    EXPECT_TRUE(positive(limits->read_gbps_all));
  }
}

TEST(CpuLimits, ProbesKnowEveryX86Instruction) {
  std::set<std::string_view> probes;
  for (const PeakProbe& probe : peak_probes()) EXPECT_TRUE(probes.insert(probe.mma).second) << probe.mma;
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor != ArchVendor::kX86) continue;
    for (const MmaSpec& mma : arch.mma) EXPECT_TRUE(probes.count(mma.name)) << mma.name << " of " << arch.target;
  }
}

TEST(CpuLimits, TheMemoryBufferIsBounded) {
  DeviceSpec spec;
  for (const int64_t cache : {int64_t{0}, int64_t{1} << 28, int64_t{1} << 31}) {
    spec.l3_bytes = cache;
    for (const double budget : {-1.0, 0.0, 0.5, 3.0, 1e9}) {
      const int64_t bytes = memory_probe_bytes(spec, budget);
      EXPECT_GE(bytes, int64_t{64} << 20);
      EXPECT_LE(bytes, std::max(int64_t{1} << 30, 2 * cache));
      EXPECT_EQ(bytes % (2 << 20), 0);
    }
  }
}

TEST(CpuLimits, ColdDataExceedsTheLastLevelCacheOrSaysSo) {
  DeviceSpec spec;
  EXPECT_EQ(cold_footprint(spec, 1).wanted, int64_t{1} << 30);
  spec.l3_bytes = int64_t{3} << 30;
  const ColdFootprint footprint = cold_footprint(spec, 0.25);
  EXPECT_EQ(footprint.wanted, int64_t{6} << 30);
  EXPECT_EQ(footprint.cold(), footprint.bytes == footprint.wanted);
  EXPECT_FALSE(cold_footprint(spec, 1e-9).cold()) << "no memory for it";
  spec.emulated = true;
  EXPECT_EQ(cold_footprint(spec, 1).bytes, 0) << "no caches";
}

TEST(CpuLimits, EveryPatternReadsWholePages) {
  // Reading is all that the probe does: a sanitizer or a protected page behind the buffer shows a wrong end.
  alignas(64) static char data[3 * 4096];
  const auto device = make_cpu_device(1);
  for (const ReadPattern& pattern : kReadPatterns) {
    for (const int64_t bytes : {int64_t{4096}, int64_t{3 * 4096}})
      memory_probe(device->spec()).read(data, bytes, pattern);
  }
}

TEST(CpuLimits, TheNominalClockIsTheSameEveryTime) {
  EXPECT_EQ(nominal_clock_ghz(), nominal_clock_ghz());
  EXPECT_GE(nominal_clock_ghz(), 0);
  EXPECT_LT(nominal_clock_ghz(), 20);
}

}  // namespace
}  // namespace tilewright
