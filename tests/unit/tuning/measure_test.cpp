// SPDX-License-Identifier: MIT
// Timing, its statistics, and the limits it is held against. No test asserts how long anything takes.
#include "tuning/measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "support/toy_operator.hpp"
#include "tuning/report/roofline.hpp"

namespace tilewright {
namespace {

TEST(Measure, QuantilesInterpolate) {
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.5), 2.5);
  EXPECT_EQ(quantile(values, 1), 4);
  EXPECT_EQ(quantile(std::vector<double>{7}, 0.25), 7);
}

TEST(Measure, GroupIsInterleavedAndTurnsCountUp) {
  std::string order;
  std::vector<int> turns;
  const auto call = [&](char name) {
    return [&order, &turns, name](int turn) {
      order += name;
      turns.push_back(turn);
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
      while (std::chrono::steady_clock::now() < end) {
      }
      return Status();
    };
  };
  const std::vector<TimedCall> calls = {call('a'), call('b'), call('c')};
  MeasureOptions options{.seconds = 0, .min_samples = 3, .max_samples = 3, .min_sample_us = 0};
  Result<std::vector<Timing>> timings = measure_calls(calls, options);
  ASSERT_TRUE(timings.ok());
  EXPECT_EQ(order.substr(order.size() - 9), "abcabcabc");
  for (size_t i = 0; i < turns.size(); ++i) EXPECT_EQ(turns[i], static_cast<int>(i));
  for (const Timing& t : *timings) {
    EXPECT_EQ(t.samples(), 3);
    EXPECT_GE(t.us, 50);
  }
}

TEST(Measure, ShortCallsAreRepeatedWithinASample) {
  int64_t calls = 0;
  const TimedCall call = [&calls](int) { return ++calls, Status(); };
  MeasureOptions options{.seconds = 0, .min_samples = 5, .max_samples = 5, .min_sample_us = 100};
  ASSERT_TRUE(measure_calls({&call, 1}, options).ok());
  EXPECT_GT(calls, 5 * 10);
}

TEST(Measure, TimeBoundsTheSamplesFromBelowAndAbove) {
  const TimedCall call = [](int) { return Status(); };
  Result<std::vector<Timing>> few = measure_calls({&call, 1}, {.seconds = 0, .min_samples = 4, .max_samples = 100});
  Result<std::vector<Timing>> many = measure_calls({&call, 1}, {.seconds = 10, .min_samples = 4, .max_samples = 20});
  ASSERT_TRUE(few.ok() && many.ok());
  EXPECT_EQ((*few)[0].samples(), 4);
  EXPECT_EQ((*many)[0].samples(), 20);
}

TEST(Measure, FirstErrorEndsIt) {
  int calls = 0;
  const TimedCall call = [&calls](int) { return ++calls < 4 ? Status() : Status(StatusCode::kDeviceError, "gone"); };
  Result<std::vector<Timing>> timings = measure_calls({&call, 1}, {});
  ASSERT_FALSE(timings.ok());
  EXPECT_EQ(timings.status().code(), StatusCode::kDeviceError);
  EXPECT_EQ(calls, 4);
}

TEST(Measure, PairedRatioIgnoresWhatSlowsBoth) {
  Timing base, other;
  for (int i = 0; i < 20; ++i) {
    const double drift = 1 + i;  // a machine that gets slower and slower
    base.sample_us.push_back(12 * drift);
    other.sample_us.push_back(10 * drift);
  }
  const PairedRatio ratio = paired_ratio(base, other);
  EXPECT_NEAR(ratio.ratio, 1.2, 1e-9);
  EXPECT_NEAR(ratio.low, 1.2, 1e-9);
  EXPECT_NEAR(ratio.high, 1.2, 1e-9);
}

TEST(Measure, PairedRatioOfEqualNoiseDoesNotExcludeOne) {
  Timing base, other;
  for (int i = 0; i < 40; ++i) {
    base.sample_us.push_back(100 + (i * 37) % 11);
    other.sample_us.push_back(100 + (i * 53) % 11);
  }
  const PairedRatio ratio = paired_ratio(base, other);
  EXPECT_LE(ratio.low, 1);
  EXPECT_GE(ratio.high, 1);
  EXPECT_LE(ratio.low, ratio.ratio);
  EXPECT_GE(ratio.high, ratio.ratio);
  EXPECT_EQ(paired_ratio({}, {}).ratio, 0);
}

// A device whose graphs take as long as they say.
class GraphDevice final : public Device {
 public:
  struct Graph final : Burst {
    explicit Graph(double us) : us(us) {}
    Result<double> run() override { return us; }
    double us;
  };
  Result<std::unique_ptr<Burst>> make_burst(const TurnedCall& call, int first_turn, int count) override {
    counts.push_back(count);
    for (int i = 0; i < count; ++i) {
      if (Status s = call(first_turn + i, {}); !s) return s;
    }
    return std::unique_ptr<Burst>(std::make_unique<Graph>(100));
  }
  const DeviceSpec& spec() const override { return spec_; }
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact&) override { return unused(); }
  Status launch(const LoadedKernel&, std::span<const std::byte>, const LaunchShape&, const LaunchContext&) override {
    return unused();
  }
  Result<void*> allocate(int64_t) override { return unused(); }
  void deallocate(void*, int64_t) override {}
  Result<Workspace> workspace(int64_t, void*) override { return unused(); }
  bool host_memory() const override { return false; }
  Status copy_from_host(void*, const void*, int64_t) override { return unused(); }
  Status copy_to_host(void*, const void*, int64_t) override { return unused(); }
  Status fill(void*, uint8_t, int64_t) override { return unused(); }
  Status synchronize() override { return {}; }
  int64_t available_memory() override { return 0; }
  Result<DeviceLimits> measure_limits(double, const ProbeCompiler&) override { return unused(); }

  std::vector<int> counts;

 private:
  static Status unused() { return Status(StatusCode::kInternal, "not used"); }
  DeviceSpec spec_;
};

TEST(Measure, AGraphIsAsLongAsWantedAndWalksThroughAllCopies) {
  GraphDevice device;
  int last = 0;
  const std::vector<TurnedCall> calls = {[&last](int turn, const LaunchContext&) {
    last = turn;
    return Status();
  }};
  const auto counts_with = [&](double graph_us, int copies) {
    device.counts.clear();
    const auto timings = measure_graphs(device, calls, copies, {.seconds = 0, .min_samples = 3, .graph_us = graph_us});
    EXPECT_TRUE(timings.ok());
    EXPECT_EQ(timings->at(0).samples(), 3);
    EXPECT_EQ(timings->at(0).us, 100);
    return device.counts;
  };
  EXPECT_EQ(counts_with(1000, 2), (std::vector<int>{1, 10}));
  EXPECT_EQ(counts_with(1000, 16), (std::vector<int>{1, 16}));
  EXPECT_EQ(last, 15);
}

TEST(Measure, RestsAndSustainedCallsKeepTheLeastNumberOfSamples) {
  GraphDevice device;
  const std::vector<TurnedCall> calls(2, [](int, const LaunchContext&) { return Status(); });
  for (const MeasureOptions& options : {rested_bursts(0), sustained_calls(0.002)}) {
    const auto timings = measure_graphs(device, calls, 1, options);
    ASSERT_TRUE(timings.ok()) << timings.status().message();
    for (const Timing& timing : *timings) EXPECT_GE(timing.samples(), options.min_samples);
  }
  EXPECT_TRUE(heats(1e12, 1e3));
  EXPECT_FALSE(heats(1e11, 1e3));  // slow
  EXPECT_FALSE(heats(1e10, 10));   // short
}

TEST(Measure, CopiesFillTheFootprintWithinTheirBounds) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(copies_for(128 << 20, kGiB), 8);
  EXPECT_EQ(copies_for(100 << 20, kGiB), 11) << "rounded up";
  EXPECT_EQ(copies_for(8e9, kGiB), 1);
  EXPECT_EQ(copies_for(0, kGiB), 1024);
  EXPECT_EQ(copies_for(1 << 20, 0), 1);
}

TEST(Measure, MoreSidesShareTheMemory) {
  DeviceSpec spec;
  spec.l3_bytes = int64_t{1} << 50;  // more than any machine has
  const Operator& op = test::toy_operator();
  const std::vector<std::byte> problem = test::toy_problem((16 << 20) / 8);
  const Rotations alone = rotations_for(op, problem, spec), four = rotations_for(op, problem, spec, 4);
  EXPECT_LE(four.copies, alone.copies);
  EXPECT_GE(four.copies, 1);
  spec.l3_bytes = 0;
  EXPECT_TRUE(rotations_for(op, test::toy_problem(int64_t{1} << 33), spec).cold) << "one copy is more than the cache";
}

class Roofline : public testing::Test {
 protected:
  Roofline() {
    spec_.arch = find_arch("x86-64-v4-bf16");
    spec_.units = 4;
    limits_.peaks = {{"fma_avx512", 100, 400}, {"dot_bf16", 200, 700}, {"dot_i8_vnni", 400, 1600}};
    limits_.read_gbps_unit = 10;
    limits_.read_gbps_all = 30;
  }
  DeviceSpec spec_;
  DeviceLimits limits_;
};

TEST_F(Roofline, FastestLegalInstructionIsThePeak) {
  EXPECT_EQ(roof_of(spec_, limits_, DType::kF32).peak_gflops, 400);
  EXPECT_EQ(roof_of(spec_, limits_, DType::kBf16).mma, "dot_bf16");
  EXPECT_EQ(roof_of(spec_, limits_, DType::kF16).mma, "fma_avx512") << "f16 is widened";
  EXPECT_EQ(roof_of(spec_, limits_, DType::kI8).peak_gflops, 1600);
  EXPECT_EQ(roof_of(spec_, limits_, DType::kNone).peak_gflops, 0);
}

TEST_F(Roofline, AGpusInstructionIsFoundByItsTypeAndOneTypeStandsForItsRate) {
  DeviceSpec gpu;
  gpu.arch = find_arch("sm_90a");
  gpu.units = 132;
  DeviceLimits limits;
  limits.peaks = {{"wgmma_bf16", 6e3, 8e5, 7e5}, {"wgmma_e4m3", 12e3, 16e5, 13e5}, {"wgmma_i8", 12e3, 15e5, 12e5}};
  for (const auto& [dtype, peak] : {std::pair{DType::kBf16, 8e5},
                                    {DType::kF16, 8e5},
                                    {DType::kF8E4M3, 16e5},
                                    {DType::kF8E5M2, 16e5},
                                    {DType::kI8, 15e5},
                                    {DType::kF32, 0.0}}) {
    EXPECT_EQ(roof_of(gpu, limits, dtype).peak_gflops, peak) << dtype_name(dtype);
  }
  EXPECT_EQ(roof_of(gpu, limits, DType::kF16).sustained().peak_gflops, 7e5);
  EXPECT_EQ(roof_of(gpu, limits, DType::kI8, 66).sustained_gflops, 0);
}

TEST_F(Roofline, UnitsScaleTheRoofsUpToWhatAllReach) {
  EXPECT_EQ(roof_of(spec_, limits_, DType::kBf16, 1).peak_gflops, 200);
  EXPECT_EQ(roof_of(spec_, limits_, DType::kBf16, 2).peak_gflops, 400);
  EXPECT_EQ(roof_of(spec_, limits_, DType::kBf16, 4).peak_gflops, 700);
  EXPECT_EQ(roof_of(spec_, limits_, DType::kBf16, 9).peak_gflops, 700);
  EXPECT_EQ(roof_of(spec_, limits_, DType::kBf16, 3).read_gbps, 30);
}

TEST_F(Roofline, ReportedLimitsAreThoseOfTheUnitsInUse) {
  limits_.copy_gbps_all = 25, limits_.launch_us = 3;
  const DeviceLimits one = limits_of_units(spec_, limits_, 1), all = limits_of_units(spec_, limits_, 0);
  EXPECT_EQ(one.peaks[1].gflops_all, 200);
  EXPECT_EQ(one.read_gbps_all, 10);
  EXPECT_EQ(one.copy_gbps_all, 0) << "not measured with one unit";
  EXPECT_EQ(all.peaks[1].gflops_all, 700);
  EXPECT_EQ(all.read_gbps_all, 30);
  EXPECT_EQ(all.copy_gbps_all, 25);
}

TEST_F(Roofline, LimitIsTheLargerOfArithmeticAndMemory) {
  const Roof roof = roof_of(spec_, limits_, DType::kF32);
  EXPECT_DOUBLE_EQ(roof.limit_us(400e3, 1), 1);
  EXPECT_DOUBLE_EQ(roof.limit_us(1, 60e3), 2);
  EXPECT_DOUBLE_EQ(roof.fraction(400e3, 60e3, 4), 0.5);
  EXPECT_TRUE(roof.compute_bound(400e3, 1));
  EXPECT_FALSE(roof.compute_bound(1, 60e3));
  EXPECT_EQ(Roof().fraction(1, 1, 1), 0) << "nothing measured, no share";
}

}  // namespace
}  // namespace tilewright
