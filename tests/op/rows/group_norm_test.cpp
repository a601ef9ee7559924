// SPDX-License-Identifier: MIT
// group_norm and its gradient through dispatch and the public API: both layouts, every type and tail, strides, in place; what is equal, NaN, far from 0.
#include "tilewright/group_norm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(GroupNorm, EveryTypeLayoutAndTailMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"bf16", "f16", "f32"}) {
    for (const char* sizes : {"n=1:c=1:s=1:g=1", "n=2:c=32:s=64:g=8", "n=3:c=20:s=1:g=4", "n=2:c=7:s=9:g=7",
                              "n=2:c=66:s=33:g=22", "n=1:c=3:s=5000:g=1", "n=2:c=80:s=300:g=8", "n=1:c=4186:s=7:g=13",
                              "n=0:c=4:s=4:g=2", "n=2:c=4:s=0:g=2", "n=2:c=0:s=5:g=2"}) {
      for (const char* layout : {"", ":channels_last=1"}) {
        for (const char* options : {"", ":weight=f32:bias=bf16:activation=silu", ":weight=f16:in_place=1"}) {
          const std::string text = fmt::format("{}:x={}{}{}", sizes, x, layout, options);
          const VerifyReport report = run_row_problem(*context, group_norm_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

// On CPUs in whole lines past the caches, but for channels and positions that begin or end inside of one.
TEST(GroupNorm, OutputsBeyondTheCachesAreWrittenWhole) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"bf16", "f16", "f32"}) {
    for (const char* layout : {"", ":channels_last=1", ":channels_last=1:so=0.112"}) {
      for (const char* options : {"", ":weight=f32:bias=bf16:activation=silu"}) {
        const std::string text = fmt::format("n=1:c=96:s=23001:g=3:x={}{}{}", x, layout, options);
        const VerifyReport report = run_row_problem(*context, group_norm_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

std::string random_group_norm_text(test::Random& random) {
  const int64_t groups = test::pick(random, 1, 6), channels = groups * test::pick(random, 1, 17);
  const int64_t positions = test::chance(random, 0.1) ? test::pick(random, 4000, 9000) : test::pick(random, 1, 600);
  const int64_t images = test::pick(random, 1, 3);
  const bool last = test::chance(random, 0.5);
  std::string text = fmt::format("n={}:c={}:s={}:g={}:x={}", images, channels, positions, groups,
                                 test::pick_one(random, {"f32", "f16", "bf16"}));
  for (const char* name : {"weight", "bias"}) {
    if (test::chance(random, 0.6)) text += fmt::format(":{}={}", name, test::pick_one(random, {"f32", "f16", "bf16"}));
  }
  if (test::chance(random, 0.4)) text += ":activation=silu";
  if (last) text += ":channels_last=1";
  const int64_t lines = last ? positions : channels, length = last ? channels : positions;
  const int64_t line = length + test::pick(random, 0, 9);
  if (test::chance(random, 0.3)) text += fmt::format(":sx={}.{}", lines * line + 5, line);
  if (test::chance(random, 0.2)) text += fmt::format(":sx=0.{}", -line);
  // Images inside each other's lines.
  if (test::chance(random, 0.3)) text += fmt::format(":so={}.{}", line, images * line);
  return text;
}

TEST(GroupNormRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(group_norm_operator(), 60, 67, random_group_norm_text);
}

TEST(GroupNormBackward, EveryTypeLayoutAndTailMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"bf16", "f16", "f32"}) {
    for (const char* sizes :
         {"n=1:c=1:s=1:g=1", "n=2:c=32:s=64:g=8", "n=3:c=20:s=1:g=4", "n=2:c=66:s=33:g=22", "n=1:c=3:s=5000:g=1",
          "n=2:c=80:s=300:g=8", "n=1:c=4186:s=7:g=13", "n=0:c=4:s=4:g=2", "n=2:c=4:s=0:g=2"}) {
      for (const char* layout : {"", ":channels_last=1"}) {
        for (const char* options :
             {"", ":weight=f32:bias=bf16:activation=silu:dweight=f32:dbias=f32", ":weight=f16:dweight=f16:in_place=1",
              ":bias=f32:dbias=bf16:activation=silu:in_place=2"}) {
          const std::string text = fmt::format("{}:x={}{}{}", sizes, x, layout, options);
          const VerifyReport report = run_row_problem(*context, group_norm_backward_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

TEST(GroupNormBackward, GradientsBeyondTheCachesAreWrittenWhole) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"bf16", "f32"}) {
    for (const char* layout : {"", ":channels_last=1", ":channels_last=1:so=0.112"}) {
      for (const char* options : {":dweight=f32:weight=f32", ":activation=silu:in_place=1"}) {
        const std::string text = fmt::format("n=1:c=96:s=23001:g=3:x={}{}{}", x, layout, options);
        if (text.find("so=") != std::string::npos && text.find("in_place") != std::string::npos) continue;
        const VerifyReport report = run_row_problem(*context, group_norm_backward_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST(GroupNormBackwardRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(group_norm_backward_operator(), 60, 71, [](test::Random& random) {
    std::string text = random_group_norm_text(random);
    const bool weighted = text.find(":weight=") != std::string::npos;
    if (weighted && test::chance(random, 0.7)) text += ":dweight=f32";
    if (test::chance(random, 0.5)) text += fmt::format(":dbias={}", test::pick_one(random, {"f32", "bf16"}));
    return text;
  });
}

std::vector<float> normalised_images(Context& context, std::vector<float> x, int64_t channels, int64_t groups,
                                     bool last, float eps = 1e-5f) {
  std::vector<float> y(x.size(), 7);
  const auto size = static_cast<int64_t>(x.size()) / channels;
  const auto view = [&](float* data) {
    if (last) return TensorView::strided(data, DType::kF32, {1, channels, size}, {0, 1, channels});
    return TensorView::contiguous(data, DType::kF32, {1, channels, size});
  };
  GroupNormCall call;
  call.x = view(x.data()), call.out = view(y.data()), call.groups = groups, call.eps = eps;
  const Status status = group_norm(context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return y;
}

TEST(GroupNorm, EqualElementsGiveZeroAndNanKeepsToItsGroup) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const bool last : {false, true}) {
    for (const float value : normalised_images(*context, std::vector<float>(8 * 5001, 0.1f), 8, 2, last)) {
      ASSERT_EQ(value, 0);
    }
    std::vector<float> x(4 * 64);
    std::iota(x.begin(), x.end(), 1.0f);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      x[1] = bad;  // of the first channel, or of the second one
      const std::vector<float> y = normalised_images(*context, x, 4, 2, last);
      for (size_t i = 0; i < y.size(); ++i) {
        const size_t channel = last ? i % 4 : i / 64;
        ASSERT_EQ(std::isnan(y[i]), channel < 2) << i;
      }
    }
  }
}

// A mean far above the deviation costs no more than the rounding of x itself.
TEST(GroupNorm, AFarMeanLosesNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const bool last : {false, true}) {
    std::vector<float> x(4 * 6000);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 65536.0f + static_cast<float>(i * 7919 % 16);
    double mean = 0, squares = 0;
    for (const float one : x) mean += static_cast<double>(one) / static_cast<double>(x.size());
    for (const float one : x) squares += (static_cast<double>(one) - mean) * (static_cast<double>(one) - mean);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    const std::vector<float> y = normalised_images(*context, x, 4, 1, last);
    // The mean itself is rounded to 2^-8.
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(static_cast<double>(y[i]), (static_cast<double>(x[i]) - mean) * inverse, 0.002) << i;
  }
}

// Few threads take groups whole, more of them share each stage.
TEST(GroupNorm, AGroupHasTheSameBitsOnAnyNumberOfThreads) {
  std::vector<float> x(16 * 5001);  // 40 KB a group
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1013) - 300.0f;
  const std::vector<float> one = normalised_images(*row_context("off", 1), x, 16, 8, false);
  for (const int threads : {2, 3, 7}) {
    ASSERT_EQ(one, normalised_images(*row_context("off", threads), x, 16, 8, false)) << threads;
  }
  // Channels last, few positions: more threads take parts of them.
  x.resize(640 * 70);
  const std::vector<float> last = normalised_images(*row_context("off", 1), x, 640, 32, true);
  for (const int threads : {2, 3, 7}) {
    ASSERT_EQ(last, normalised_images(*row_context("off", threads), x, 640, 32, true)) << threads;
  }
}

TEST(GroupNorm, ThePublicFunctionRefusesByName) {
  const std::unique_ptr<Context> context = row_context("off");
  float x[2 * 4 * 6] = {}, out[2 * 4 * 6] = {}, weight[4] = {};
  GroupNormCall call;
  call.x = TensorView::contiguous(x, DType::kF32, {2, 4, 2, 3});
  call.out = TensorView::contiguous(out, DType::kF32, {2, 4, 2, 3});
  call.weight = TensorView::contiguous(weight, DType::kF32, {4});
  call.groups = 2;
  ASSERT_TRUE(group_norm(*context, call).ok());
  const auto refusal = [&](auto&& change) {
    GroupNormCall other = call;
    change(other);
    const Status refused = group_norm(*context, other);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    return refused.message();
  };
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.out = {}; }), "group_norm: argument 'out' is missing");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.groups = 3; }),
            "group_norm: argument 'groups' is 3, allowed: divisors of the 4 channels");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.out.shape[1] = 2; }),
            "group_norm: argument 'out' has shape [2, 2, 2, 3], expected [2, 4, 2, 3]");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.weight.shape[0] = 2; }),
            "group_norm: argument 'weight' has shape [2], expected [4]");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.out.dtype = DType::kF16; }),
            "group_norm: argument 'out' is f16, 'x' is f32");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.x.dtype = c.out.dtype = DType::kI8; }),
            "group_norm: argument 'x' is i8, allowed: f32, f16, bf16");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.activation = Activation::kRelu; }),
            "group_norm: argument 'activation' is relu, allowed: none, silu");
  EXPECT_EQ(refusal([&](GroupNormCall& c) { c.out.data = x + 1; }),
            "group_norm: argument 'out' overlaps 'x', and has not its strides");
  EXPECT_EQ(refusal([](GroupNormCall& c) { c.eps = -1; }), "group_norm: argument 'eps' is -1, allowed: 0 and above");
  EXPECT_THAT(refusal([](GroupNormCall& c) { c.eps = std::numeric_limits<float>::quiet_NaN(); }),
              HasSubstr("argument 'eps' is nan"));
  EXPECT_THAT(refusal([](GroupNormCall& c) { c.x.stride[3] = 2; }),
              HasSubstr("argument 'x' has strides [24, 6, 3, 2]"));
  EXPECT_THAT(
      refusal([&](GroupNormCall& c) { c.out = TensorView::strided(out, DType::kF32, {2, 4, 2, 3}, {24, 1, 12, 4}); }),
      HasSubstr("allowed: the layout of 'x'"));
}

TEST(GroupNorm, ImagesOfChannelsLastAreViewsOfTheSameShape) {
  const std::unique_ptr<Context> context = row_context("off");
  float first[2][4][6], last[2][6][4], of_first[2][4][6], of_last[2][6][4];
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 4; ++c) {
      for (int s = 0; s < 6; ++s) first[n][c][s] = last[n][s][c] = static_cast<float>((n * 31 + c * 17 + s * 5) % 11);
    }
  }
  GroupNormCall call;
  call.groups = 2, call.activation = Activation::kSilu;
  call.x = TensorView::contiguous(first, DType::kF32, {2, 4, 2, 3});
  call.out = TensorView::contiguous(of_first, DType::kF32, {2, 4, 2, 3});
  ASSERT_TRUE(group_norm(*context, call).ok());
  call.x = TensorView::strided(last, DType::kF32, {2, 4, 2, 3}, {24, 1, 12, 4});
  call.out = TensorView::strided(of_last, DType::kF32, {2, 4, 2, 3}, {24, 1, 12, 4});
  ASSERT_TRUE(group_norm(*context, call).ok());
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 4; ++c) {
      for (int s = 0; s < 6; ++s) EXPECT_NEAR(of_first[n][c][s], of_last[n][s][c], 1e-6f);
    }
  }
}

TEST(GroupNormBackward, ThePublicFunctionRefusesByName) {
  const std::unique_ptr<Context> context = row_context("off");
  float x[24] = {1, 2, 4}, dy[48] = {3, 1}, dx[24], weight[4] = {1, 2, 3, 4}, dweight[4], dbias[4];
  GroupNormBackwardCall call;
  call.x = TensorView::contiguous(x, DType::kF32, {1, 4, 6});
  call.dy = TensorView::contiguous(dy, DType::kF32, {1, 4, 6});
  call.dx = TensorView::contiguous(dx, DType::kF32, {1, 4, 6});
  call.weight = TensorView::contiguous(weight, DType::kF32, {4});
  call.dweight = TensorView::contiguous(dweight, DType::kF32, {4});
  call.dbias = TensorView::contiguous(dbias, DType::kF32, {4});
  call.groups = 2;
  ASSERT_TRUE(group_norm_backward(*context, call).ok());
  EXPECT_EQ(dbias[0], 4);
  const auto refusal = [&](auto&& change) {
    GroupNormBackwardCall other = call;
    change(other);
    const Status refused = group_norm_backward(*context, other);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    return refused.message();
  };
  EXPECT_EQ(refusal([](GroupNormBackwardCall& c) { c.dy = {}; }), "group_norm_backward: argument 'dy' is missing");
  EXPECT_EQ(refusal([](GroupNormBackwardCall& c) { c.weight = {}; }),
            "group_norm_backward: argument 'dweight' is given, 'weight' is not");
  EXPECT_EQ(refusal([&](GroupNormBackwardCall& c) { c.dweight.data = weight; }),
            "group_norm_backward: argument 'dweight' overlaps 'weight'");
  EXPECT_EQ(refusal([&](GroupNormBackwardCall& c) { c.dbias.data = dweight; }),
            "group_norm_backward: argument 'dbias' overlaps 'dweight'");
  EXPECT_THAT(refusal([](GroupNormBackwardCall& c) { c.eps = -1; }), HasSubstr("argument 'eps' is -1"));
  EXPECT_THAT(refusal([](GroupNormBackwardCall& c) { c.eps = std::numeric_limits<float>::quiet_NaN(); }),
              HasSubstr("argument 'eps' is nan"));
  EXPECT_EQ(refusal([&](GroupNormBackwardCall& c) { c.dx.data = dy + 1; }),
            "group_norm_backward: argument 'dx' overlaps 'dy'");
}

}  // namespace
}  // namespace tilewright
