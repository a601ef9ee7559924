// SPDX-License-Identifier: MIT
// The gradient of act_and_mul through dispatch and the public API.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/act_and_mul.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(ActAndMulBackward, EveryActivationGateAndLengthMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* what : {"activation=silu", "activation=gelu", "activation=gelu_tanh", "activation=relu:squared=1",
                           "activation=sigmoid", "activation=tanh", "activation=hardswish", "out=f32"}) {
    for (const char* gate : {"none", "separated", "interleaved"}) {
      for (const int n : {1, 2, 7, 15, 16, 17, 63, 64, 65, 127, 200, 1000}) {
        for (const char* x : {"f32", "bf16"}) {
          const std::string text = fmt::format("m=3:n={0}:x={1}:residual={1}:gate={2}:{3}", n, x, gate, what);
          for (const bool usual : {false, true}) {
            const VerifyReport report =
                run_row_problem(*context, act_and_mul_backward_operator(), text, "", 1, InputData::kNormal, usual);
            EXPECT_TRUE(report.passed) << text << " usual " << usual << ": " << report.failure;
          }
        }
      }
    }
  }
}

TEST(ActAndMulBackward, EmptyProblemsAndLongRows) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"m=0:n=16:x=f32:residual=f32", "m=3:n=0:x=f32:residual=f32", "m=2:n=1000003:x=bf16:residual=bf16"}) {
    const std::string gated = std::string(text) + ":gate=separated:activation=silu";
    const VerifyReport report = run_row_problem(*context, act_and_mul_backward_operator(), gated);
    EXPECT_TRUE(report.passed) << gated << ": " << report.failure;
  }
}

std::string random_backward_act_text(test::Random& random) {
  const auto type = [&random] { return test::pick_one(random, {"f32", "f16", "bf16"}); };
  const int64_t rows = test::chance(random, 0.03) ? 0 : test::pick(random, 1, 6), outer = test::pick(random, 1, 3);
  const int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 2, test::chance(random, 0.1) ? 9000 : 400);
  const std::string gate = test::pick_one(random, {"none", "separated", "separated", "interleaved"});
  std::string text =
      fmt::format("m={}x{}:n={}:x={}:residual={}:out={}:gate={}", outer, rows, n, type(), type(), type(), gate);
  const std::string activation =
      test::pick_one(random, {"silu", "silu", "gelu", "gelu_tanh", "relu", "sigmoid", "tanh", "hardswish", "none"});
  text += ":activation=" + activation;
  if (activation != "none" && test::chance(random, 0.2)) text += ":squared=1";
  for (const char* name : {"sx", "sr", "so"}) {
    const int64_t step = (name[1] == 'r' || gate == "none" ? n : 2 * n) + test::pick(random, 0, 9);
    if (test::chance(random, 0.3)) text += fmt::format(":{}=0.{}.{}", name, step * rows + 3, step);
  }
  return text;
}
TEST(ActAndMulBackwardRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(act_and_mul_backward_operator(), 150, 43, random_backward_act_text);
}

TEST(SlowActAndMulBackward, EveryCompiledInstanceIsRightOnEveryTail) {
  const std::unique_ptr<Context> context = row_context("on");
  const Operator& op = act_and_mul_backward_operator();
  for (const char* text : {"m=8:n=64:x=f16:residual=bf16:gate=separated:activation=gelu:out=f32",
                           "m=8:n=64:x=bf16:residual=f32:gate=interleaved:activation=silu"}) {
    for (const std::vector<std::byte>& tail : op.tail_problems(*op.parse_problem(text))) {
      const VerifyReport report = run_row_problem(*context, op, op.problem_text(tail));
      EXPECT_TRUE(report.passed) << op.problem_text(tail) << ": " << report.failure;
    }
  }
}

// One row through the public function.
std::vector<float> gradient_of(const std::vector<float>& x, const ActAndMulBackwardCall& options) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> given = x, dx(x.size(), -7);
  const auto length = static_cast<int64_t>(x.size()), n = options.gate == GateMode::kNone ? length : length / 2;
  std::vector<float> dy(static_cast<size_t>(n), 1);
  ActAndMulBackwardCall call = options;
  call.x = TensorView::contiguous(given.data(), DType::kF32, {1, length});
  call.dx = TensorView::contiguous(dx.data(), DType::kF32, {1, length});
  call.dy = TensorView::contiguous(dy.data(), DType::kF32, {1, n});
  const Status status = act_and_mul_backward(*context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  // In place: the same bits.
  call.dx = call.x;
  EXPECT_TRUE(act_and_mul_backward(*context, call).ok());
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(given[i] == dx[i] || std::isnan(dx[i])) << i;
  return dx;
}

TEST(ActAndMulBackward, WhatIsCutHasNoGradient) {
  const auto gradient =
      gradient_of({1, 8, 7, -8, 7, 8, -9, 0.5f},
                  {.activation = Activation::kNone, .gate = GateMode::kInterleaved, .limit = 7, .up_offset = 1});
  // Pairs (1, 8), (7, -8), (7, 8), (-9, 0.5).
  EXPECT_THAT(gradient, testing::ElementsAre(8, 0, -6, 0, 8, 0, 1.5f, -9));
}

TEST(ActAndMulBackward, SiluOfGptOss) {
  const float x = 0.75f, alpha = 1.702f;
  const double gate = 1 / (1 + std::exp(-static_cast<double>(alpha) * x));
  const auto gradient =
      gradient_of({x, 2}, {.gate = GateMode::kInterleaved, .limit = 7, .alpha = alpha, .up_offset = 1});
  EXPECT_NEAR(gradient[0], 3 * gate * (1 + alpha * x * (1 - gate)), 1e-6);
  EXPECT_NEAR(gradient[1], x * gate, 1e-6);
}

TEST(ActAndMulBackward, FarFromZeroSlopesAreNumbers) {
  for (int a = 0; a < enum_count(Activation{}); ++a) {
    const auto activation = static_cast<Activation>(a);
    if (activation == Activation::kClamp) continue;
    const auto slope =
        gradient_of({-3e38f, -1e10f, -100, 100, 1e10f, 3e38f}, {.activation = activation, .gate = GateMode::kNone});
    const bool flat = activation == Activation::kSigmoid || activation == Activation::kTanh;
    for (size_t i = 0; i < slope.size(); ++i) {
      const float want = activation == Activation::kNone ? 1 : i < 3 || flat ? 0 : 1;
      EXPECT_NEAR(slope[i], want, 1e-6) << kActivationNames[a] << " " << i;
    }
    const auto nan =
        gradient_of({std::numeric_limits<float>::quiet_NaN()}, {.activation = activation, .gate = GateMode::kNone});
    EXPECT_TRUE(activation == Activation::kNone || std::isnan(nan[0])) << kActivationNames[a];
  }
}

TEST(ActAndMulBackward, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x(24), dy(12), dx(24);
  const auto refusal = [&](auto&& change) {
    ActAndMulBackwardCall call;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {2, 12});
    call.dx = TensorView::contiguous(dx.data(), DType::kF32, {2, 12});
    call.dy = TensorView::contiguous(dy.data(), DType::kF32, {2, 6});
    change(call);
    const Status status = act_and_mul_backward(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  using Call = ActAndMulBackwardCall;
  EXPECT_EQ(refusal([](Call& c) { c.dy = {}; }), "act_and_mul_backward: argument 'dy' is missing");
  EXPECT_EQ(refusal([](Call& c) { c.dx = {}; }), "act_and_mul_backward: argument 'dx' is missing");
  EXPECT_THAT(refusal([](Call& c) { c.dx.shape[1] = 6; }), HasSubstr("'dx' has shape [2, 6], expected [2, 12]"));
  EXPECT_THAT(refusal([](Call& c) { c.dy.shape[1] = 12; }), HasSubstr("'dy' has shape [2, 12], expected [2, 6]"));
  EXPECT_THAT(refusal([](Call& c) { c.x.shape[1] = 11; }), HasSubstr("expected an even last size"));
  EXPECT_THAT(refusal([](Call& c) { c.dx.data = c.dy.data; }), HasSubstr("'dx' overlaps 'dy'"));
  EXPECT_THAT(refusal([](Call& c) { c.activation = Activation::kClamp; }), HasSubstr("'limit' does that"));
}

}  // namespace
}  // namespace tilewright
