// SPDX-License-Identifier: MIT
// act_and_mul through dispatch and the public API: every activation, gate, type, size, stride and quantiser equals the float64
// reference.
#include "tilewright/act_and_mul.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kGenericAct = "act_and_mul/act_and_mul_generic/x86-64/any/run_time=1";

TEST(ActAndMul, EveryActivationGateAndLengthMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* what : {"activation=silu", "activation=gelu", "activation=gelu_tanh", "activation=relu:squared=1",
                           "activation=sigmoid", "activation=tanh", "activation=hardswish", "out=f32"}) {
    for (const char* gate : {"none", "separated", "interleaved"}) {
      for (const int n : {1, 2, 7, 15, 16, 17, 63, 64, 65, 127, 200, 1000}) {
        for (const char* x : {"f32", "bf16"}) {
          const std::string text = fmt::format("m=3:n={}:x={}:gate={}:{}", n, x, gate, what);
          for (const bool usual : {false, true}) {
            const VerifyReport report =
                run_row_problem(*context, act_and_mul_operator(), text, "", 1, InputData::kNormal, usual);
            EXPECT_TRUE(report.passed) << text << " usual " << usual << ": " << report.failure;
          }
        }
      }
    }
  }
}

TEST(ActAndMul, EmptyProblemsWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=0:n=16:x=f32", "m=3:n=0:x=f32", "m=0:n=0:x=bf16", "m=3:n=0:x=bf16:out=i8:quant=row",
                           "m=3:n=0:x=bf16:out=e4m3:quant=group"}) {
    const std::string gated = std::string(text) + ":gate=separated:activation=silu";
    const VerifyReport report = run_row_problem(*context, act_and_mul_operator(), gated);
    EXPECT_TRUE(report.passed) << gated << ": " << report.failure;
  }
}

TEST(ActAndMul, RowsOfAMillionElementsMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=2:n=1000003:x=bf16:gate=separated:activation=silu",
                           "m=1:n=1000000:x=f32:out=e4m3:quant=group:gate=separated:activation=gelu"}) {
    const VerifyReport report = run_row_problem(*context, act_and_mul_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_act_text(test::Random& random) {
  const int64_t rows = test::chance(random, 0.03) ? 0 : test::pick(random, 1, 6), outer = test::pick(random, 1, 3);
  const int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 2, test::chance(random, 0.1) ? 9000 : 400);
  const std::string gate = test::pick_one(random, {"none", "separated", "separated", "interleaved"});
  std::string text =
      fmt::format("m={}x{}:n={}:x={}:gate={}", outer, rows, n, test::pick_one(random, {"f32", "f16", "bf16"}), gate);
  const std::string activation = test::pick_one(
      random, {"silu", "silu", "silu", "gelu", "gelu_tanh", "relu", "sigmoid", "tanh", "hardswish", "none"});
  text += ":activation=" + activation;
  if (activation != "none" && test::chance(random, 0.2)) text += ":squared=1";
  if (test::chance(random, 0.6)) {
    const std::string quant = test::pick_one(random, {"tensor", "row", "group"}),
                      out = test::pick_one(random, {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8", "e2m1"});
    text += ":out=" + out + ":quant=" + quant;
    if (quant == "group") {
      text += ":group=" + test::pick_one(random, {"16", "32", "64", "128"});
      if (out == "e2m1" && test::chance(random, 0.5)) {
        text += ":scale=e4m3:tensor_scale=" + test::pick_one(random, {"none", "given"});
      } else if (out != "i8" && test::chance(random, 0.5)) {
        text += ":scale=e8m0:rounding=" + test::pick_one(random, {"down", "up", "ceil", "even"});
      }
    }
  } else {
    text += ":out=" + test::pick_one(random, {"f32", "f16", "bf16"});
  }
  // Rows with gaps, and the other way round.
  const int64_t length = gate == "none" ? n : 2 * n, in = length + test::pick(random, 0, 9), to = n + n % 2 + 2;
  if (test::chance(random, 0.4)) text += fmt::format(":sx=0.{}.{}", -in * std::max<int64_t>(rows, 1), in);
  if (test::chance(random, 0.4)) text += fmt::format(":so=0.{}.{}", to, to * outer);
  return text;
}

TEST(ActAndMulRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(act_and_mul_operator(), 300, 32, random_act_text);
}

TensorView act_rows(void* data, DType dtype, int64_t m, int64_t n) {
  return TensorView::contiguous(data, dtype, {m, n});
}

// gpt-oss: gates up to 7, ups within 7, (up + 1) gate sigmoid(1.702 gate).
TEST(ActAndMul, GptOssGatesAreLimitedAndItsUpsOneMore) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericAct}) {
    float x[8] = {9, -9, -30, 30, 0.5f, -0.25f, 7, 7}, y[4];
    ActAndMulCall call;
    call.recipe = recipe;
    call.x = act_rows(x, DType::kF32, 1, 8), call.out = act_rows(y, DType::kF32, 1, 4);
    call.gate = GateMode::kInterleaved;
    call.limit = 7, call.alpha = 1.702f, call.up_offset = 1;
    const Status status = act_and_mul(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (int i = 0; i < 4; ++i) {
      const double gate = std::min(7.0f, x[2 * i]), up = std::min(7.0f, std::max(-7.0f, x[2 * i + 1]));
      EXPECT_NEAR(y[i], gate / (1 + std::exp(-1.702 * gate)) * (up + 1), 1e-5) << i;
    }
  }
}

// Without a limit nothing is cut, and silu is silu.
TEST(ActAndMul, WithoutOptionsItIsSiluTimesUp) {
  const std::unique_ptr<Context> context = row_context("off");
  float x[6] = {1e6f, -3, 2, -1e6f, 5, -7}, y[3];
  ActAndMulCall call;
  call.x = act_rows(x, DType::kF32, 1, 6), call.out = act_rows(y, DType::kF32, 1, 3);
  ASSERT_TRUE(act_and_mul(*context, call).ok());
  for (int i = 0; i < 3; ++i) {
    const double want = x[i] / (1 + std::exp(-x[i])) * x[3 + i];
    EXPECT_NEAR(y[i], want, 1e-6 * std::fabs(want)) << i;
  }
}

TEST(ActAndMul, TheOutputMayStandWhereTheGatesStood) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kRows = 3, kLength = 77;
  std::vector<float> x(kRows * 2 * kLength), apart(kRows * kLength);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6;
  ActAndMulCall call;
  call.x = act_rows(x.data(), DType::kF32, kRows, 2 * kLength);
  call.out = act_rows(apart.data(), DType::kF32, kRows, kLength);
  ASSERT_TRUE(act_and_mul(*context, call).ok());
  call.out = TensorView::strided(x.data(), DType::kF32, {kRows, kLength}, {2 * kLength, 1});
  call.gate = GateMode::kInterleaved;
  EXPECT_THAT(act_and_mul(*context, call).message(), HasSubstr("'out' overlaps 'x'"));
  call.gate = GateMode::kSeparated;
  ASSERT_TRUE(act_and_mul(*context, call).ok());
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    ASSERT_EQ(x[static_cast<size_t>(i / kLength * 2 * kLength + i % kLength)], apart[static_cast<size_t>(i)]) << i;
  }
}

TEST(ActAndMul, NaNAndInfinityComeOutAsDocumented) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericAct}) {
    for (const float limit : {0.0f, 7.0f}) {
      float x[8] = {kNaN, 1, kInf, 2, 1, kNaN, 1, 3}, y[4];
      ActAndMulCall call;
      call.recipe = recipe, call.limit = limit;
      call.x = act_rows(x, DType::kF32, 1, 8), call.out = act_rows(y, DType::kF32, 1, 4);
      ASSERT_TRUE(act_and_mul(*context, call).ok());
      EXPECT_TRUE(std::isnan(y[0]));
      EXPECT_TRUE(std::isnan(y[1]));
      EXPECT_TRUE(limit == 0 ? y[2] == kInf : std::fabs(y[2] - 6.993626f) < 1e-4f) << y[2];
      EXPECT_NEAR(y[3], 3 * 1.7615942f, 1e-5);
    }
  }
}

TEST(ActAndMul, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float data[256] = {};
  const auto refusal = [&](auto&& change) {
    ActAndMulCall call;
    call.x = act_rows(data, DType::kF32, 4, 8), call.out = act_rows(data + 64, DType::kF32, 4, 4);
    change(call);
    const Status status = act_and_mul(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.x = act_rows(data, DType::kF32, 4, 7); }),
            "act_and_mul: argument 'x' has shape [4, 7], expected an even last size");
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.gate = GateMode::kNone; }),
            "act_and_mul: argument 'out' has shape [4, 4], expected [4, 8], that of 'x'");
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.out = act_rows(data + 64, DType::kF32, 4, 8); }),
            "act_and_mul: argument 'out' has shape [4, 8], expected [4, 4], that of 'x' with half its last size");
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.activation = Activation::kClamp; }),
            "act_and_mul: argument 'activation' is clamp: 'limit' does that");
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.limit = -1; }),
            "act_and_mul: argument 'limit' is -1, allowed: 0 and above");
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.activation = Activation::kGelu, c.alpha = 2; }),
            "act_and_mul: argument 'alpha' is 2, which is silu's");
  EXPECT_EQ(refusal([&](ActAndMulCall& c) { c.activation = Activation::kNone, c.squared = true; }),
            "act_and_mul: argument 'squared' is true, and there is no 'activation'");
  EXPECT_THAT(rms_norm_operator().parse_problem("m=1:n=8:x=f32:gate=separated").status().message(),
              HasSubstr("none of this operator's"));
}

}  // namespace
}  // namespace tilewright
