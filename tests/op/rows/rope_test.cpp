// SPDX-License-Identifier: MIT
// rope through dispatch and the public API: both orders of pairs, partial heads, positions, strides and types equal the float64
// reference.
#include "tilewright/rope.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(Rope, EveryOrderTypeAndLengthMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* order : {"", ":interleaved=1"}) {
      for (const int n : {1, 2, 3, 16, 34, 64, 66, 80, 128, 130, 256}) {
        for (const char* k : {"", ":residual={}:heads=4"}) {
          std::string text = fmt::format("m=2x3x5:n={}:x={}", n, x) + order + k;
          if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, x);
          const VerifyReport report = run_row_problem(*context, rope_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

TEST(Rope, LongHeadsManyTokensAndNoneMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=2x1x1:n=1000000:x=bf16:table=bf16", "m=1x3000x3:n=64:x=f32:positions=1:table_rows=100",
                           "m=0:n=16:x=f32", "m=3:n=0:x=f32", "m=2x0x4:n=128:x=bf16:residual=bf16:heads=2",
                           "m=1x1x3:n=64:x=f16:dims=0", "m=1x2x4:n=64:x=f32:residual=f32:heads=0"}) {
    const VerifyReport report = run_row_problem(*context, rope_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_rope_text(test::Random& random) {
  const int64_t outer = test::pick(random, 1, 3), tokens = test::pick(random, 1, 5), heads = test::pick(random, 1, 4);
  const int64_t n = test::pick(random, 1, test::chance(random, 0.1) ? 600 : 200);
  const std::string x = test::pick_one(random, {"f32", "f16", "bf16"});
  std::string text = fmt::format("m={}x{}x{}:n={}:x={}:table={}", outer, tokens, heads, n, x,
                                 test::pick_one(random, {"f32", "f16", "bf16"}));
  const int64_t of_q = test::pick(random, 0, heads);
  if (test::chance(random, 0.5)) text += fmt::format(":residual={}:heads={}", x, of_q);
  const int64_t dims = test::pick(random, 0, n / 2) * 2;
  if (test::chance(random, 0.5)) text += fmt::format(":dims={}", dims);
  if (test::chance(random, 0.5)) text += fmt::format(":st={}", n + test::pick(random, 0, 5));
  if (test::chance(random, 0.5)) text += ":interleaved=1";
  if (test::chance(random, 0.3)) text += ":inverse=1";
  if (test::chance(random, 0.6)) text += fmt::format(":positions=1:table_rows={}", test::pick(random, 1, 50));
  // Tokens inside heads, and gaps.
  if (test::chance(random, 0.4)) text += fmt::format(":sx={}.{}.{}", n * tokens * (heads + 2), n + 3, (n + 3) * tokens);
  if (test::chance(random, 0.4)) text += fmt::format(":so={}.{}.{}", n * (heads + 1) * tokens, n * (heads + 1), n);
  return text;
}

TEST(RopeRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(rope_operator(), 50, 33, random_rope_text, /*may_refuse=*/true);
}

struct PackedHeads {
  static constexpr int64_t kTokens = 6, kQ = 3, kK = 2, kD = 16, kAll = (kQ + 2 * kK) * kD;
  std::vector<float> data, cos, sin;
  std::vector<int32_t> positions{5, 0, 2, 9, 7, 1};

  PackedHeads() : data(kTokens * kAll), cos(10 * kD / 2), sin(cos.size()) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 31) - 15;
    EXPECT_TRUE(rope_tables(*rope_angles({.dims = kD}), 0, 10, cos, sin).ok());
  }
  TensorView heads(float* at, int64_t count) const {
    return TensorView::strided(at, DType::kF32, {kTokens, count, kD}, {kAll, kD, 1});
  }
  RopeCall in_place() {
    RopeCall call;
    call.q = call.q_out = heads(data.data(), kQ), call.k = call.k_out = heads(data.data() + kQ * kD, kK);
    call.cos = TensorView::contiguous(cos.data(), DType::kF32, {10, kD / 2});
    call.sin = TensorView::contiguous(sin.data(), DType::kF32, {10, kD / 2});
    call.positions = TensorView::contiguous(positions.data(), DType::kI32, {kTokens});
    return call;
  }
};

TEST(Rope, QueriesAndKeysTurnWhereTheyLieInAPackedTensorAndBack) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const bool interleaved : {false, true}) {
    PackedHeads packed;
    const std::vector<float> before = packed.data;
    RopeCall call = packed.in_place();
    call.interleaved = interleaved;
    const Status status = rope(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (int64_t i = 0; i < PackedHeads::kTokens * PackedHeads::kAll; ++i) {
      const int64_t token = i / PackedHeads::kAll, column = i % PackedHeads::kAll, e = column % PackedHeads::kD;
      double want = before[i];
      if (column < (PackedHeads::kQ + PackedHeads::kK) * PackedHeads::kD) {
        const int64_t pair = interleaved ? e / 2 : e % 8;
        const bool second = interleaved ? e % 2 == 1 : e >= 8;
        const int64_t step = interleaved ? 1 : 8;
        const double angle = packed.positions[token] * std::pow(10000.0, -2.0 * pair / PackedHeads::kD);
        want = second ? before[i] * std::cos(angle) + before[i - step] * std::sin(angle)
                      : before[i] * std::cos(angle) - before[i + step] * std::sin(angle);
      }
      ASSERT_NEAR(packed.data[i], want, 1e-5) << i;
    }
    call.inverse = true;
    ASSERT_TRUE(rope(*context, call).ok());
    for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(packed.data[i], before[i], 1e-5) << i;
  }
}

TEST(Rope, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  PackedHeads packed;
  const auto refusal = [&](auto&& change) {
    RopeCall call = packed.in_place();
    change(call);
    const Status status = rope(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](RopeCall& c) { c.k_out = {}; }), "rope: argument 'k_out' is missing");
  EXPECT_EQ(refusal([](RopeCall& c) { c.sin = {}; }), "rope: argument 'sin' is missing");
  EXPECT_EQ(refusal([](RopeCall& c) { c.q_out.shape[1] = 2; }),
            "rope: argument 'q_out' has shape [6, 2, 16], expected [6, 3, 16]");
  EXPECT_THAT(refusal([](RopeCall& c) { c.cos.shape[1] = c.sin.shape[1] = 9; }), HasSubstr("turns 18 elements of 16"));
  EXPECT_THAT(refusal([](RopeCall& c) { c.positions.shape[0] = 5; }), HasSubstr("'positions' is i32 [5]"));
  EXPECT_THAT(refusal([&](RopeCall& c) { c.k_out = packed.heads(packed.data.data() + 8, 2); }), HasSubstr("overlaps"));
}

// From the papers' formulas, written down again.
TEST(RopeAngles, StretchedAnglesAreThoseOfThePapers) {
  const RopeFrequencies base{.dims = 128, .theta = 500000, .factor = 8, .original_length = 8192};
  const auto of = [&](RopeScaling scaling) {
    RopeFrequencies f = base;
    f.scaling = scaling;
    if (scaling == RopeScaling::kLongRope) f.factors.assign(64, 2.5);
    return *rope_angles(f);
  };
  const RopeAngles plain = of(RopeScaling::kNone), linear = of(RopeScaling::kLinear), llama = of(RopeScaling::kLlama3),
                   yarn = of(RopeScaling::kYarn), longer = of(RopeScaling::kLongRope);
  for (size_t i = 0; i < 64; ++i) {
    const double angle = std::exp(-std::log(500000.0) * static_cast<double>(i) / 64);
    EXPECT_NEAR(plain.per_position[i] / angle, 1, 1e-12);
    EXPECT_NEAR(linear.per_position[i] / angle, 1.0 / 8, 1e-12);
    EXPECT_NEAR(longer.per_position[i] / angle, 1 / 2.5, 1e-12);
    const double length = 2 * std::numbers::pi / angle;
    const double smooth = std::clamp((8192 / length - 1) / 3, 0.0, 1.0);
    EXPECT_NEAR(llama.per_position[i] / angle, smooth + (1 - smooth) / 8, 1e-12) << i;
    // Pairs before 18 turn more than 32 times within 8192, those from 36 on less than once.
    const double low = std::floor(64 * std::log(8192 / (64 * std::numbers::pi)) / std::log(500000.0));
    const double high = std::ceil(64 * std::log(8192 / (2 * std::numbers::pi)) / std::log(500000.0));
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(yarn.per_position[i] / angle, 1 - ramp * 7 / 8, 1e-12) << i;
  }
  EXPECT_EQ(plain.attention, 1);
  EXPECT_NEAR(yarn.attention, 0.1 * std::log(8.0) + 1, 1e-15);
  EXPECT_NEAR(longer.attention, std::sqrt(1 + std::log(8.0) / std::log(8192.0)), 1e-15);
}

TEST(RopeAngles, TablesHoldTheAnglesOfFarPositionsToF32) {
  const RopeAngles angles = *rope_angles({.dims = 64});
  std::vector<float> cos(3 * 32), sin(cos.size());
  ASSERT_TRUE(rope_tables(angles, 1000000, 3, cos, sin).ok());
  for (size_t i = 0; i < cos.size(); ++i) {
    const double angle = static_cast<double>(1000000 + i / 32) * angles.per_position[i % 32];
    EXPECT_EQ(cos[i], static_cast<float>(std::cos(angle)));
    EXPECT_EQ(sin[i], static_cast<float>(std::sin(angle)));
  }
  EXPECT_EQ(rope_tables(angles, 0, 4, cos, sin).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(rope_angles({.dims = 3}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(rope_angles({.scaling = RopeScaling::kYarn}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tilewright
