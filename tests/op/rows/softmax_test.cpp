// SPDX-License-Identifier: MIT
// softmax through dispatch and the public API: every type, size and stride equals the float64 reference; rows with NaN and infinities.
#include "tilewright/softmax.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kGenericSoftmax = "softmax/softmax_generic/x86-64/any/run_time=1";

TEST(Softmax, EveryLengthAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const int n : {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 200, 1000, 4095, 4096, 4097, 9001}) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* out : {"f32", "f16", "bf16"}) {
        for (const int log : {0, 1}) {
          const std::string text = fmt::format("m=3:n={}:x={}:out={}:log={}", n, x, out, log);
          const VerifyReport report = run_row_problem(*context, softmax_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

TEST(Softmax, EmptyProblemsWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=0:n=16:x=f32", "m=3:n=0:x=f32", "m=0:n=0:x=bf16:log=1"}) {
    const VerifyReport report = run_row_problem(*context, softmax_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

TEST(Softmax, RowsOfAMillionElementsMatchTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"m=2:n=1000003:x=bf16:out=f32", "m=1:n=1000000:x=f32", "m=2:n=1000001:x=f16:out=f32:log=1"}) {
    for (const char* recipe : {"", kGenericSoftmax}) {
      const VerifyReport report = run_row_problem(*context, softmax_operator(), text, recipe);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
}

std::string random_softmax_text(test::Random& random) {
  const int64_t rows = test::chance(random, 0.03) ? 0 : test::pick(random, 1, 6), outer = test::pick(random, 1, 3);
  const int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 2, test::chance(random, 0.1) ? 9000 : 400);
  std::string text = fmt::format("m={}x{}:n={}:x={}", outer, rows, n, test::pick_one(random, {"f32", "f16", "bf16"}));
  text += ":out=" + test::pick_one(random, {"f32", "f16", "bf16"});
  if (test::chance(random, 0.5)) text += ":log=1";
  // Rows with gaps, broadcast, and the other way round.
  const int64_t in = n + test::pick(random, 0, 9), to = n + n % 2 + 2;
  if (test::chance(random, 0.3))
    text += fmt::format(":sx=0.{}.{}", -in * std::max<int64_t>(rows, 1), in);
  else if (test::chance(random, 0.2))
    text += fmt::format(":sx=0.{}.0", in);
  if (test::chance(random, 0.4)) text += fmt::format(":so=0.{}.{}", to, to * outer);
  return text;
}

TEST(SoftmaxRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(softmax_operator(), 300, 33, random_softmax_text);
}

// The row's softmax, or its logarithm, by both kernels that are always built.
std::vector<float> softmax_row(Context& context, std::vector<float> x, const char* recipe, bool log, float scale = 1) {
  std::vector<float> y(x.size(), -7);
  SoftmaxCall call;
  call.x = TensorView::contiguous(x.data(), DType::kF32, {1, static_cast<int64_t>(x.size())});
  call.out = TensorView::contiguous(y.data(), DType::kF32, {1, static_cast<int64_t>(x.size())});
  call.log = log, call.scale = scale, call.recipe = recipe;
  const Status status = softmax(context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return y;
}

TEST(Softmax, LargeValuesOverflowNothingAndOrderDoesNotMatter) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericSoftmax}) {
    // Each part of the row has a larger value than those before, or a smaller one.
    for (const bool rising : {true, false}) {
      std::vector<float> x(20000);
      std::iota(x.begin(), x.end(), rising ? 1e4f : -2e4f);
      if (!rising) std::reverse(x.begin(), x.end());
      const std::vector<float> y = softmax_row(*context, x, recipe, false), l = softmax_row(*context, x, recipe, true);
      const double sum = 1 / (1 - std::exp(-1.0));
      for (size_t i = 0; i < x.size(); ++i) {
        const double d = rising ? static_cast<double>(i) - 19999 : -static_cast<double>(i);
        ASSERT_NEAR(y[i], std::exp(d) / sum, 1e-6) << i;
        ASSERT_NEAR(l[i], d - std::log(sum), 1e-6 * (1 - d)) << i;
      }
    }
    constexpr float kLargest = std::numeric_limits<float>::max();
    EXPECT_THAT(softmax_row(*context, {kLargest, -kLargest, kLargest, 0}, recipe, false),
                testing::ElementsAre(0.5f, 0, 0.5f, 0));
    EXPECT_THAT(softmax_row(*context, {-kLargest, -kLargest}, recipe, false), testing::ElementsAre(0.5f, 0.5f));
    EXPECT_THAT(softmax_row(*context, {3, -5, 8, 1}, recipe, false, 0), testing::Each(0.25f));
    EXPECT_EQ(softmax_row(*context, {1, 2}, recipe, false, -1), softmax_row(*context, {-1, -2}, recipe, false));
  }
}

// Exponentials of 16-bit elements are of differences from the largest of the first ones, until one is met that is far above it.
TEST(Softmax, WhatTheFirstElementsAreChangesNothing) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Context> context = row_context("off");
  const auto row = [&](const std::vector<float>& x, bool log) {  // in bf16, which has all of these values
    std::vector<uint16_t> narrow(x.size());
    std::vector<float> y(x.size(), -7);
    const auto n = static_cast<int64_t>(x.size());
    for (size_t i = 0; i < x.size(); ++i) narrow[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
    SoftmaxCall call;
    call.x = TensorView::contiguous(narrow.data(), DType::kBf16, {1, n});
    call.out = TensorView::contiguous(y.data(), DType::kF32, {1, n});
    call.log = log;
    const Status status = softmax(*context, call);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return y;
  };
  for (const size_t n : {1024u, 1025u, 4100u, 9000u}) {
    // From -36 and -35 the largest one's share of the sum comes back to just below 1.
    for (const float first : {-kInf, -1000.0f, -50.0f, -36.0f, -35.0f, -7.0f, 0.0f}) {
      for (const float rest : {-1.0f, -100.0f, -kInf}) {
        for (const size_t at : {size_t{0}, size_t{130}, n - 1}) {
          std::vector<float> x(n, rest);
          std::fill(x.begin(), x.begin() + 128, first);
          x[at] = 2.25f;
          SCOPED_TRACE(fmt::format("n = {}, first {}, rest {}, largest at {}", n, first, rest, at));
          double sum = 0;
          for (const float v : x) sum += std::exp(static_cast<double>(v) - 2.25);
          const std::vector<float> y = row(x, false), l = row(x, true);
          for (size_t i = 0; i < n; ++i) {
            ASSERT_EQ(l[i] == -kInf, x[i] == -kInf) << i;
            if (x[i] == -kInf) {
              ASSERT_EQ(y[i], 0) << i;
              continue;
            }
            const double d = static_cast<double>(x[i]) - 2.25, right = std::exp(d) / sum;
            // log2(e) is rounded, which counts d times.
            ASSERT_NEAR(y[i], right, 4e-8 * (25 - d) * right + 1e-37) << i;
            ASSERT_NEAR(l[i], d - std::log(sum), 1e-6 * (8 - d)) << i;
          }
        }
      }
    }
  }
}

// As PyTorch's.
TEST(Softmax, NaNAndInfinityComeOutAsDocumented) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", kGenericSoftmax}) {
    for (const bool log : {false, true}) {
      for (const size_t n : {1u, 3u, 40u, 9000u}) {
        for (const size_t at : {size_t{0}, n / 2, n - 1}) {
          for (const float special : {kNaN, kInf}) {
            std::vector<float> x(n, 1.0f);
            x[at] = special;
            for (const float y : softmax_row(*context, x, recipe, log)) ASSERT_TRUE(std::isnan(y)) << n << " " << at;
          }
          // Minus infinity weighs nothing.
          if (n == 1) continue;
          std::vector<float> x(n, 1.0f);
          x[at] = -kInf;
          const std::vector<float> y = softmax_row(*context, x, recipe, log);
          ASSERT_EQ(y[at], log ? -kInf : 0);
          const double other = 1.0 / static_cast<double>(n - 1);
          ASSERT_NEAR(y[(at + 1) % n], log ? std::log(other) : other, 1e-5);
        }
        for (const float y : softmax_row(*context, std::vector<float>(n, -kInf), recipe, log))
          ASSERT_TRUE(std::isnan(y));
      }
    }
  }
}

TEST(Softmax, TheOutputMayStandWhereXStood) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x(3 * 5000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6;
  const std::vector<float> apart = softmax_row(*context, x, "", false);
  SoftmaxCall call;
  call.x = call.out = TensorView::contiguous(x.data(), DType::kF32, {static_cast<int64_t>(x.size())});
  ASSERT_TRUE(softmax(*context, call).ok());
  EXPECT_EQ(x, apart);
}

TEST(Softmax, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float data[256] = {};
  const auto refusal = [&](auto&& change) {
    SoftmaxCall call;
    call.x = TensorView::contiguous(data, DType::kF32, {4, 8});
    call.out = TensorView::contiguous(data + 64, DType::kF32, {4, 8});
    change(call);
    const Status status = softmax(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([&](SoftmaxCall& c) { c.out = {}; }), "softmax: argument 'out' is missing");
  EXPECT_EQ(refusal([&](SoftmaxCall& c) { c.scale = NAN; }), "softmax: argument 'scale' is nan, allowed: up to 2^126");
  EXPECT_EQ(refusal([&](SoftmaxCall& c) { c.out = TensorView::contiguous(data + 64, DType::kI8, {4, 8}); }),
            "softmax: argument 'out' is i8, allowed: f32, f16, bf16");
  EXPECT_EQ(refusal([&](SoftmaxCall& c) { c.x = TensorView::contiguous(data, DType::kF32, {8, 4}).transposed(); }),
            "softmax: argument 'x' has stride 4 along its last dimension, allowed: 1");
  EXPECT_EQ(refusal([&](SoftmaxCall& c) { c.out = TensorView::contiguous(data + 2, DType::kF32, {4, 8}); }),
            "softmax: argument 'out' overlaps 'x' without being the same elements");
  EXPECT_THAT(softmax_operator().parse_problem("m=1:n=8:x=f32:out=i8:quant=row").status().message(),
              HasSubstr("none of this operator's"));
  EXPECT_THAT(rms_norm_operator().parse_problem("m=1:n=8:x=f32:log=1").status().message(),
              HasSubstr("none of this operator's"));
}

}  // namespace
}  // namespace tilewright
