// SPDX-License-Identifier: MIT
// gated_rms_norm through dispatch and the public API.
#include "tilewright/gated_rms_norm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(GatedRmsNorm, EveryTypeOrderAndGroupMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* types :
       {"x=f32:residual=f32:weight=f32", "x=bf16:residual=bf16:weight=f32", "x=f16:residual=f32",
        "x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group", "x=bf16:residual=bf16:weight=bf16:out=i8:quant=row"}) {
    for (const char* option : {"", ":gate_first=1", ":weight_groups=4", ":weight_groups=3:gate_first=1"}) {
      for (const char* sizes : {"m=12:n=128", "m=5:n=77", "m=1:n=1", "m=2x3x4:n=300", "m=0:n=8", "m=3:n=20000"}) {
        const std::string text = fmt::format("{}:{}{}", sizes, types, option);
        const VerifyReport report = run_row_problem(*context, gated_rms_norm_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

std::string random_gated_text(test::Random& random) {
  std::string text = fmt::format("m={}x{}:n={}:x={}:residual={}", test::pick(random, 1, 5), test::pick(random, 1, 6),
                                 test::pick(random, 1, 700), test::pick_one(random, {"f32", "f16", "bf16"}),
                                 test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.7)) text += fmt::format(":weight={}", test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.5)) text += ":gate_first=1";
  if (test::chance(random, 0.5)) text += fmt::format(":weight_groups={}", test::pick(random, 1, 6));
  if (test::chance(random, 0.3)) {
    text += fmt::format(":out={}:quant={}", test::pick_one(random, {"e4m3", "i8"}),
                        test::pick_one(random, {"tensor", "row", "group"}));
  }
  return text;
}
TEST(GatedRmsNormRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(gated_rms_norm_operator(), 60, 53, random_gated_text);
}

TEST(GatedRmsNorm, GroupsHaveTheirOwnMeansAndWeightsAndXMayBeTheOutput) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr size_t kRows = 3, kN = 12, kGroup = 4;
  std::vector<float> x(kRows * kN), z(x.size()), weight(kN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)), z[i] = std::cos(static_cast<float>(i));
  for (size_t i = 0; i < kN; ++i) weight[i] = static_cast<float>(i + 1);
  std::vector<double> want(x.size());
  for (const bool before : {false, true}) {
    for (size_t first = 0; first < x.size(); first += kGroup) {
      double squares = 0;
      const auto gate = [&](size_t i) { return z[i] / (1 + std::exp(-static_cast<double>(z[i]))); };
      const auto value = [&](size_t i) { return x[i] * (before ? 1 : gate(i)); };
      for (size_t i = first; i < first + kGroup; ++i) squares += value(i) * value(i);
      for (size_t i = first; i < first + kGroup; ++i) {
        want[i] = value(i) / std::sqrt(squares / kGroup + 1e-5) * weight[i % kN] * (before ? gate(i) : 1);
      }
    }
    std::vector<float> in_place = x;
    const TensorView rows = TensorView::contiguous(in_place.data(), DType::kF32, {kRows, kN});
    GatedRmsNormCall call;
    call.x = call.out = rows, call.z = TensorView::contiguous(z.data(), DType::kF32, {kRows, kN});
    call.weight = TensorView::contiguous(weight.data(), DType::kF32, {kN});
    call.norm_group = kGroup, call.norm_before_gate = before;
    const Status status = gated_rms_norm(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(in_place[i], want[i], 1e-5 * weight[i % kN]) << i;
  }
}

TEST(GatedRmsNorm, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x(24), out(24);
  const auto refusal = [&](auto&& change) {
    GatedRmsNormCall call;
    call.x = call.z = TensorView::contiguous(x.data(), DType::kF32, {2, 12});
    call.out = TensorView::contiguous(out.data(), DType::kF32, {2, 12});
    change(call);
    const Status status = gated_rms_norm(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](GatedRmsNormCall& c) { c.z = {}; }), "gated_rms_norm: argument 'z' is missing");
  EXPECT_THAT(refusal([](GatedRmsNormCall& c) { c.norm_group = 5; }),
              HasSubstr("'norm_group' is 5, allowed: what divides 12"));
  EXPECT_THAT(refusal([](GatedRmsNormCall& c) { c.norm_group = 4, c.quant = Quantisation::kRow; }),
              HasSubstr("'quant' is row"));
  EXPECT_THAT(refusal([](GatedRmsNormCall& c) { c.z.shape[1] = 11; }), HasSubstr("argument 'z' has shape [2, 11]"));
}

}  // namespace
}  // namespace tilewright
