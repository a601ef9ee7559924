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
