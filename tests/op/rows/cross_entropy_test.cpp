// SPDX-License-Identifier: MIT
// cross_entropy through dispatch and the public API: every type, size and stride equals the float64 reference; ignored rows, targets that
// are none, gradients where logits stood.
#include "tilewright/cross_entropy.hpp"

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

constexpr const char* kGenericCrossEntropy = "cross_entropy/cross_entropy_generic/x86-64/any/run_time=1";

TEST(CrossEntropy, EveryLengthAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const int n : {1, 2, 7, 15, 16, 17, 33, 65, 200, 1000, 4095, 4096, 4097, 9001}) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* more : {"", ":out=f32:lse=1", ":gradient=0", ":factor=1:ignore_index=0"}) {
        const std::string text = fmt::format("m=9:n={}:x={}{}", n, x, more);
        const VerifyReport report = run_row_problem(*context, cross_entropy_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST(CrossEntropy, LongRowsMatchTheReferenceAndNoRowsWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=2:n=1000003:x=bf16:out=f32:lse=1", "m=3:n=128256:x=bf16", "m=0:n=16:x=f32:lse=1"}) {
    for (const char* recipe : {"", kGenericCrossEntropy}) {
      const VerifyReport report = run_row_problem(*context, cross_entropy_operator(), text, recipe);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
}

std::string random_cross_entropy_text(test::Random& random) {
  const int64_t rows = test::pick(random, 1, 6), outer = test::pick(random, 1, 3);
  const int64_t n = test::pick(random, 1, test::chance(random, 0.1) ? 9000 : 400);
  std::string text = fmt::format("m={}x{}:n={}:x={}", outer, rows, n, test::pick_one(random, {"f32", "f16", "bf16"}));
  text += test::chance(random, 0.2) ? ":gradient=0" : ":out=" + test::pick_one(random, {"f32", "f16", "bf16"});
  for (const char* flag : {":lse=1", ":factor=1", ":ignore_index=3"}) {
    if (test::chance(random, 0.4)) text += flag;
  }
  // Rows with gaps and the other way round; targets of i64; losses in columns.
  if (test::chance(random, 0.3)) text += fmt::format(":sx=0.{}.{}", -(n + 3) * rows, n + 3);
  if (test::chance(random, 0.4)) text += fmt::format(":starget=0.{}.2", 2 * rows);
  if (test::chance(random, 0.4)) text += fmt::format(":sloss=0.1.{}", outer);
  return text;
}

TEST(CrossEntropyRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(cross_entropy_operator(), 300, 35, random_cross_entropy_text);
}

struct Losses {
  std::vector<float> loss, gradient;
};
Losses losses_of(Context& context, std::vector<float> x, std::vector<int32_t> target, const char* recipe,
                 float smoothing = 0, bool in_place = false) {
  const auto rows = static_cast<int64_t>(target.size()), n = static_cast<int64_t>(x.size()) / rows;
  Losses found{std::vector<float>(target.size(), -7), std::vector<float>(x.size(), -7)};
  CrossEntropyCall call;
  call.x = TensorView::contiguous(x.data(), DType::kF32, {rows, n});
  call.target = TensorView::contiguous(target.data(), DType::kI32, {rows});
  call.loss = TensorView::contiguous(found.loss.data(), DType::kF32, {rows});
  call.out = in_place ? call.x : TensorView::contiguous(found.gradient.data(), DType::kF32, {rows, n});
  call.label_smoothing = smoothing, call.recipe = recipe;
  const Status status = cross_entropy(context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  if (in_place) found.gradient = x;
  return found;
}

TEST(CrossEntropy, IgnoredRowsAndTargetsThatAreNoneComeOutAsDocumented) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericCrossEntropy}) {
    const Losses found = losses_of(*context, {kNaN, 1, 2, 3, 1, 1, -kInf, 1}, {-100, 5, 0, 1}, recipe);
    EXPECT_EQ(found.loss[0], 0);
    EXPECT_TRUE(std::isnan(found.loss[1]));
    EXPECT_NEAR(found.loss[2], std::log(2.0), 1e-6);
    EXPECT_EQ(found.loss[3], 0);
    EXPECT_EQ(found.gradient[0], 0);
    EXPECT_EQ(found.gradient[1], 0);
    EXPECT_TRUE(std::isnan(found.gradient[2]));
    EXPECT_NEAR(found.gradient[4], -0.5, 1e-6);
    EXPECT_EQ(found.gradient[6], 0);
    // A target that has no weight.
    EXPECT_EQ(losses_of(*context, {-kInf, 1}, {0}, recipe).loss[0], kInf);
  }
}

TEST(CrossEntropy, TheGradientMayStandWhereLogitsStood) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x(3 * 5000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6;
  const Losses apart = losses_of(*context, x, {1, 4999, 77}, "", 0.1f),
               same = losses_of(*context, x, {1, 4999, 77}, "", 0.1f, true);
  EXPECT_EQ(apart.loss, same.loss);
  EXPECT_EQ(apart.gradient, same.gradient);
}

TEST(CrossEntropy, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float data[256] = {};
  int32_t target[4] = {};
  const auto refusal = [&](auto&& change) {
    CrossEntropyCall call;
    call.x = TensorView::contiguous(data, DType::kF32, {4, 8});
    call.target = TensorView::contiguous(target, DType::kI32, {4});
    call.loss = TensorView::contiguous(data + 128, DType::kF32, {4});
    call.out = TensorView::contiguous(data + 64, DType::kF32, {4, 8});
    change(call);
    const Status status = cross_entropy(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([&](CrossEntropyCall& c) { c.loss = {}; }), "cross_entropy: argument 'loss' is missing");
  EXPECT_EQ(refusal([&](CrossEntropyCall& c) { c.label_smoothing = 2; }),
            "cross_entropy: argument 'label_smoothing' is 2, allowed: 0 to 1");
  EXPECT_EQ(refusal([&](CrossEntropyCall& c) { c.target = TensorView::contiguous(target, DType::kF32, {4}); }),
            "cross_entropy: argument 'target' is f32, allowed: i32");
  EXPECT_EQ(refusal([&](CrossEntropyCall& c) { c.target = TensorView::contiguous(target, DType::kI32, {3}); }),
            "cross_entropy: argument 'target' has shape [3], expected that of 'x' without its last size");
  EXPECT_THAT(refusal([&](CrossEntropyCall& c) { c.factor = c.loss; }), HasSubstr("expected one of f32"));
  EXPECT_THAT(refusal([&](CrossEntropyCall& c) { c.loss = TensorView::contiguous(data, DType::kF32, {4}); }),
              HasSubstr("argument 'loss' overlaps 'x'"));
  EXPECT_EQ(refusal([&](CrossEntropyCall& c) {
              c.x = TensorView::contiguous(data, DType::kF32, {4, 0});
              c.out = {};
            }),
            "cross_entropy: size n is 0, allowed: 1 and above");
}

}  // namespace
}  // namespace tilewright
