// SPDX-License-Identifier: MIT
// The gradients of norms through dispatch and the public API.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

class NormBackward : public testing::TestWithParam<const Operator*> {};
class NormBackwardRandomProblems : public NormBackward {};
class SlowNormBackward : public NormBackward {};

TEST_P(NormBackward, EveryLengthAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* rest : {"", ":weight=f32:dweight=f32", ":weight={}:dweight={}:dbias={}:dresidual=1",
                             ":weight=bf16:dbias=f16:unit_offset=1:out=f32"}) {
      for (const int n : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 200, 1000, 4096}) {
        std::string text = fmt::format("m=5:n={0}:x={1}:residual={1}", n, x) + rest;
        for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) text.replace(at, 2, x);
        const VerifyReport report = run_row_problem(*context, *GetParam(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST_P(NormBackward, SumsOfNoRowsAreZero) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"m=0:n=16:x=f32:residual=f32", "m=0:n=33:x=bf16:residual=f32:weight=f32:dweight=f32:dbias=bf16",
        "m=3:n=0:x=f32:residual=f32:weight=f32:dweight=f32"}) {
    const VerifyReport report = run_row_problem(*context, *GetParam(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_backward_text(test::Random& random) {
  const auto type = [&random] { return test::pick_one(random, {"f32", "f16", "bf16"}); };
  const int64_t outer = test::pick(random, 1, 4), rows = test::chance(random, 0.03) ? 0 : test::pick(random, 1, 40);
  const int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 2, test::chance(random, 0.1) ? 9000 : 400);
  std::string text = fmt::format("m={}x{}:n={}:x={}:residual={}:out={}", outer, rows, n, type(), type(), type());
  if (test::chance(random, 0.7)) {
    text += ":weight=" + type();
    if (test::chance(random, 0.8)) text += ":dweight=" + type();
    if (test::chance(random, 0.3)) text += ":unit_offset=1";
  }
  if (test::chance(random, 0.5)) text += ":dbias=" + type();
  if (test::chance(random, 0.5)) text += ":dresidual=1";
  for (const char* name : {"sx", "sr", "so"}) {
    const int64_t step = n + test::pick(random, 0, 9);
    if (test::chance(random, 0.3)) text += fmt::format(":{}=0.{}.{}", name, step * rows + 3, step);
  }
  return text;
}
TEST_P(NormBackwardRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(*GetParam(), 120, 41, random_backward_text);
}

TEST_P(NormBackward, LongRowsAndManyRowsMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=3:n=1000003:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16",
                           "m=9000:n=72:x=f32:residual=f32:weight=f32:dweight=f32:dbias=f32:dresidual=1"}) {
    const VerifyReport report = run_row_problem(*context, *GetParam(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

TEST_P(NormBackward, EachSeedMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const InputData data : {InputData::kNormal, InputData::kPositive}) {
      const VerifyReport report = run_row_problem(
          *context, *GetParam(), "m=70:n=3000:x=f32:residual=f32:weight=f32:dweight=f32:dbias=f32", "", seed, data);
      EXPECT_TRUE(report.passed) << seed << ": " << report.failure;
    }
  }
}

TEST_P(SlowNormBackward, EveryCompiledInstanceIsRightOnEveryTail) {
  const std::unique_ptr<Context> context = row_context("on");
  const Operator& op = *GetParam();
  for (const char* text : {"m=8:n=64:x=f16:residual=bf16:weight=bf16:dweight=f32:out=f32",
                           "m=8:n=64:x=f32:residual=bf16:weight=f32:dweight=f32:dbias=f32:dresidual=1"}) {
    for (const std::vector<std::byte>& tail : op.tail_problems(*op.parse_problem(text))) {
      const VerifyReport report = run_row_problem(*context, op, op.problem_text(tail));
      EXPECT_TRUE(report.passed) << op.problem_text(tail) << ": " << report.failure;
    }
  }
}

std::string backward_name(const testing::TestParamInfo<const Operator*>& info) {
  return std::string(info.param->name());
}
const auto kBoth = testing::Values(&rms_norm_backward_operator(), &layer_norm_backward_operator());
INSTANTIATE_TEST_SUITE_P(All, NormBackward, kBoth, backward_name);
INSTANTIATE_TEST_SUITE_P(All, NormBackwardRandomProblems, kBoth, backward_name);
INSTANTIATE_TEST_SUITE_P(All, SlowNormBackward, kBoth, backward_name);

// Rows of a problem in the public functions.
struct Gradients {
  std::vector<float> x, dy, weight, dx, dweight, dbias;
  int64_t rows, n;

  Gradients(int64_t of_rows, int64_t of_n) : rows(of_rows), n(of_n) {
    x.resize(static_cast<size_t>(rows * n)), dy.resize(x.size()), dx.resize(x.size());
    weight.resize(static_cast<size_t>(n)), dweight.resize(weight.size()), dbias.resize(weight.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = std::sin(static_cast<float>(i)) + 0.5f, dy[i] = std::cos(3 * static_cast<float>(i));
    }
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = 1 + std::sin(static_cast<float>(5 * i));
  }
  template <class Call>
  Call call() {
    Call c;
    const auto row = [&](std::vector<float>& v) { return TensorView::contiguous(v.data(), DType::kF32, {rows, n}); };
    const auto column = [&](std::vector<float>& v) { return TensorView::contiguous(v.data(), DType::kF32, {n}); };
    c.x = row(x), c.dy = row(dy), c.dx = row(dx);
    c.weight = column(weight), c.dweight = column(dweight), c.dbias = column(dbias);
    return c;
  }
};

TEST(NormBackwardCalls, SumsHaveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<float>> found;
  for (const int units : {1, 2, 3}) {
    const std::unique_ptr<Context> context = row_context("off", units);
    Gradients g(700, 300);
    const Status status = layer_norm_backward(*context, g.call<LayerNormBackwardCall>());
    ASSERT_TRUE(status.ok()) << status.to_string();
    found.push_back(g.dx);
    found.back().insert(found.back().end(), g.dweight.begin(), g.dweight.end());
    found.back().insert(found.back().end(), g.dbias.begin(), g.dbias.end());
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

// d(sum of y dy) / dx and / dweight by differences of the forward pass.
TEST(NormBackwardCalls, GradientsAreDifferencesOfTheForwardPass) {
  const std::unique_ptr<Context> context = row_context("off");
  Gradients g(3, 20);
  const auto weighed = [&](Gradients& of, bool rms) {
    std::vector<float> y(of.x.size());
    const TensorView out = TensorView::contiguous(y.data(), DType::kF32, {of.rows, of.n});
    const auto given = of.call<RmsNormBackwardCall>();
    if (rms) {
      RmsNormCall call;
      call.x = given.x, call.out = out, call.weight = given.weight, call.unit_offset = true;
      EXPECT_TRUE(rms_norm(*context, call).ok());
    } else {
      LayerNormCall call;
      call.x = given.x, call.out = out, call.weight = given.weight, call.unit_offset = true;
      EXPECT_TRUE(layer_norm(*context, call).ok());
    }
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * of.dy[i];
    return sum;
  };
  for (const bool rms : {true, false}) {
    Status status;
    if (rms) {
      auto call = g.call<RmsNormBackwardCall>();
      call.unit_offset = true;
      status = rms_norm_backward(*context, call);
    } else {
      auto call = g.call<LayerNormBackwardCall>();
      call.unit_offset = true;
      status = layer_norm_backward(*context, call);
    }
    ASSERT_TRUE(status.ok()) << status.to_string();
    const auto slope = [&](std::vector<float> Gradients::* member, size_t i) {
      constexpr float kStep = 0x1p-6f;
      Gradients above = g, below = g;
      (above.*member)[i] += kStep, (below.*member)[i] -= kStep;
      return (weighed(above, rms) - weighed(below, rms)) / (2 * static_cast<double>(kStep));
    };
    for (size_t i = 0; i < g.x.size(); ++i) EXPECT_NEAR(g.dx[i], slope(&Gradients::x, i), 2e-3) << rms << i;
    for (size_t i = 0; i < g.weight.size(); ++i) EXPECT_NEAR(g.dweight[i], slope(&Gradients::weight, i), 2e-3) << i;
  }
}

TEST(NormBackwardCalls, WorksInTheMemoryOfEachOfItsInputs) {
  const std::unique_ptr<Context> context = row_context("off");
  Gradients want(40, 77);
  std::vector<float> added(want.x.size(), 0.25f);
  const auto run = [&](Gradients& g, std::vector<float>& residual, std::vector<float>& to) {
    auto call = g.call<RmsNormBackwardCall>();
    call.dresidual = TensorView::contiguous(residual.data(), DType::kF32, {g.rows, g.n});
    call.dx = TensorView::contiguous(to.data(), DType::kF32, {g.rows, g.n});
    const Status status = rms_norm_backward(*context, call);
    EXPECT_TRUE(status.ok()) << status.to_string();
  };
  run(want, added, want.dx);
  for (const int place : {0, 1, 2}) {
    Gradients g(40, 77);
    std::vector<float> residual = added;
    std::vector<float>& to = place == 0 ? g.x : place == 1 ? g.dy : residual;
    run(g, residual, to);
    EXPECT_EQ(to, want.dx) << place;
    EXPECT_EQ(g.dweight, want.dweight) << place;
  }
}

TEST(NormBackwardCalls, NaNStaysInItsRowAndReachesEachColumn) {
  const std::unique_ptr<Context> context = row_context("off");
  Gradients g(4, 33);
  g.x[33 + 5] = std::nanf("");
  ASSERT_TRUE(layer_norm_backward(*context, g.call<LayerNormBackwardCall>()).ok());
  for (size_t i = 0; i < g.dx.size(); ++i) EXPECT_EQ(std::isnan(g.dx[i]), i / 33 == 1) << i;
  for (size_t i = 0; i < g.dweight.size(); ++i) {
    EXPECT_TRUE(std::isnan(g.dweight[i]));
    EXPECT_FALSE(std::isnan(g.dbias[i]));
  }
}

TEST(NormBackwardCalls, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  Gradients g(2, 8);
  const auto refusal = [&](auto&& change) {
    auto call = g.call<RmsNormBackwardCall>();
    change(call);
    const Status status = rms_norm_backward(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  using Call = RmsNormBackwardCall;
  EXPECT_EQ(refusal([](Call& c) { c.dy = {}; }), "rms_norm_backward: argument 'dy' is missing");
  EXPECT_EQ(refusal([](Call& c) { c.dx = {}; }), "rms_norm_backward: argument 'dx' is missing");
  EXPECT_EQ(refusal([](Call& c) { c.weight = {}; }), "rms_norm_backward: argument 'dweight' is given without 'weight'");
  EXPECT_THAT(refusal([](Call& c) { c.dweight.shape[0] = 7; }), HasSubstr("'dweight' has shape [7], expected [8]"));
  EXPECT_THAT(refusal([](Call& c) { c.dresidual = c.dy, c.dresidual.dtype = DType::kBf16; }),
              HasSubstr("'dresidual' is bf16, expected f32, that of 'dx'"));
  EXPECT_THAT(refusal([](Call& c) { c.dbias = c.dweight; }), HasSubstr("overlaps"));
  EXPECT_THAT(refusal([](Call& c) { c.dweight.dtype = DType::kI8; }), HasSubstr("'dweight' is i8, allowed: f32"));
  EXPECT_THAT(refusal([](Call& c) { c.dy.shape[1] = 7; }), HasSubstr("argument 'dy' has shape [2, 7]"));
  EXPECT_THAT(refusal([](Call& c) { c.eps = -1; }), HasSubstr("'eps' is -1"));
}

}  // namespace
}  // namespace tilewright
