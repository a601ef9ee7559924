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

TEST(Rope, SectionsOfPairsTakeTheirAxisPositions) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "bf16"}) {
    for (const char* pairs : {"", ":interleaved=1"}) {
      for (const char* sections :
           {"128:sections=16.24.24", "128:sections=24.20.20:order=interleaved", "128:sections=32.32",
            "128:sections=32.16.16:order=parts", "80:sections=20.20:order=parts", "66:dims=60:sections=8.11.11",
            "130:sections=1.60.4", "16:sections=2.2.2.2:order=interleaved", "6:dims=2:sections=0.1",
            "10:sections=0.0.5:order=parts", "128:sections=64"}) {
        const std::string text = fmt::format("m=2x7x5:n={}:x={}:residual={}:heads=3{}", sections, x, x, pairs);
        const VerifyReport report = run_row_problem(*context, rope_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST(Rope, PackedSequencesCountTheirTokens) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* sequences : {"sequences=0", "sequences=1", "sequences=3:offsets=1", "sequences=40",
                                "sequences=7:offsets=1:inverse=1:interleaved=1"}) {
    const std::string text = fmt::format("m=1x33x3:n=64:x=f16:residual=f16:heads=2:{}", sequences);
    const VerifyReport report = run_row_problem(*context, rope_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

// Numbers of pairs that every order takes.
std::string random_sections(test::Random& random, int64_t half) {
  const int64_t axes = test::pick(random, 2, 4);
  std::string text = ":sections=";
  for (int64_t axis = 0; axis < axes; ++axis) {
    text += fmt::format("{}{}", axis == 0 ? "" : ".", half / axes + (axis < half % axes ? 1 : 0));
  }
  text += fmt::format(":order={}", test::pick_one(random, {"runs", "interleaved", "parts"}));
  if (test::chance(random, 0.3)) text += ":sa=777";
  return text;
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
  const bool some = test::chance(random, 0.5);
  if (some) text += fmt::format(":dims={}", dims);
  if (test::chance(random, 0.5)) text += fmt::format(":st={}", n + test::pick(random, 0, 5));
  if (test::chance(random, 0.5)) text += ":interleaved=1";
  if (test::chance(random, 0.3)) text += ":inverse=1";
  if (test::chance(random, 0.3)) {
    text += random_sections(random, (some ? dims : n - n % 2) / 2);
  } else if (outer == 1 && test::chance(random, 0.5)) {
    text += fmt::format(":sequences={}:offsets={}", test::pick(random, 0, 5), test::pick(random, 0, 1));
  } else if (test::chance(random, 0.6)) {
    text += fmt::format(":positions=1:table_rows={}", test::pick(random, 1, 50));
  }
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
  EXPECT_THAT(refusal([](RopeCall& c) { c.sections = {4, 4}; }), HasSubstr("'positions' is i32 [6]"));
  EXPECT_EQ(refusal([](RopeCall& c) { c.sections = {4, 4}, c.positions = {}; }),
            "rope: argument 'sections' is given without 'positions'");
  EXPECT_THAT(refusal([&](RopeCall& c) {
                c.sections = {4, 3};
                c.positions = TensorView::contiguous(packed.positions.data(), DType::kI32, {2, 6});
              }),
              HasSubstr("'sections' is 4.3, expected 8 pairs"));
  EXPECT_THAT(refusal([](RopeCall& c) { c.cumulative_lengths = c.positions; }), HasSubstr("given with 'positions'"));
  EXPECT_THAT(refusal([](RopeCall& c) { c.offsets = c.positions; }), HasSubstr("'cumulative_lengths' has shape"));
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

TEST(RopeAngles, SectionsBeginAnew) {
  const RopeAngles all = *rope_angles({.dims = 64, .sections = {20, 12}});
  ASSERT_EQ(all.per_position.size(), 32u);
  for (size_t i = 0; i < 32; ++i) {
    const double exponent = i < 20 ? static_cast<double>(i) / 20 : static_cast<double>(i - 20) / 12;
    EXPECT_NEAR(all.per_position[i] / std::pow(10000.0, -exponent), 1, 1e-12);
  }
  EXPECT_EQ(rope_angles({.dims = 64, .sections = {20, 13}}).status().code(), StatusCode::kInvalidArgument);
}

// As vLLM makes its caches, written down again.
TEST(RopeAngles, ChunkedPositionsAreThoseOfDualChunkAttention) {
  constexpr int64_t kChunk = 12, kLocal = 4, kLength = kChunk - kLocal;
  for (int64_t p = 0; p < 40; ++p) {
    const auto at = [p](RopeChunkForm form) { return rope_chunk_position(form, p, kChunk, kLocal); };
    EXPECT_EQ(at(RopeChunkForm::kKey), p % kLength);
    EXPECT_EQ(at(RopeChunkForm::kQuery), p % kLength);
    EXPECT_EQ(at(RopeChunkForm::kSuccessive), std::min(p % kLength + kLength, kChunk));
    EXPECT_EQ(at(RopeChunkForm::kInter), std::min(2 * kLength - 1, kChunk));
    EXPECT_EQ(at(RopeChunkForm::kSuccessiveCritical), p % kLength + kLength);
    EXPECT_EQ(at(RopeChunkForm::kInterCritical), p % kLength + kChunk);
  }
  const RopeAngles angles = *rope_angles({.dims = 4});
  const int64_t positions[3] = {5, 0, 5};
  std::vector<float> cos(6), sin(6), plain_cos(2), plain_sin(2);
  ASSERT_TRUE(rope_tables(angles, positions, cos, sin).ok());
  ASSERT_TRUE(rope_tables(angles, 5, 1, plain_cos, plain_sin).ok());
  EXPECT_EQ(cos, (std::vector<float>{plain_cos[0], plain_cos[1], 1, 1, plain_cos[0], plain_cos[1]}));
  EXPECT_EQ(sin, (std::vector<float>{plain_sin[0], plain_sin[1], 0, 0, plain_sin[0], plain_sin[1]}));
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
