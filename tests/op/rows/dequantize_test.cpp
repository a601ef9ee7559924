// SPDX-License-Identifier: MIT
// dequantize through dispatch: every code of every type, every quantiser, size and stride has the reference's values, to the bit.
#include "tilewright/dequantize.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/dtype.hpp"
#include "tilewright/quantize.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kCodes[] = {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8", "e2m1"};
constexpr DType kCodeTypes[] = {DType::kF8E4M3,     DType::kF8E5M2, DType::kF8E4M3Fnuz,
                                DType::kF8E5M2Fnuz, DType::kI8,     DType::kF4E2M1};

TEST(Dequantize, EveryLengthTypeAndScaleHasTheReferencesValues) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  for (const char* x : kCodes) {
    for (const char* rest :
         {"out=f32", "out=bf16", "out=f16:quant=tensor", "out=bf16:quant=group", "out=f32:quant=group:group=32",
          "out=f32:quant=group:scale=e8m0", "out=bf16:quant=block"}) {
      if (std::string_view(x) == "i8" && std::string_view(rest).ends_with("e8m0")) continue;
      for (const int n : {1, 2, 15, 17, 64, 127, 200, 4096}) {
        const std::string text = fmt::format("m=5:n={}:x={}:{}", n, x, rest);
        const VerifyReport report = run_row_problem(*context, dequantize_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

// The values of all codes that there are; NaN and infinity among them.
TEST(Dequantize, EveryCodeIsItsValueInEveryKernelThatIsBuilt) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const DType type : kCodeTypes) {
    unsigned char codes[256];
    float scale = 1;
    const int64_t count = type == DType::kF4E2M1 ? 512 : 256;
    for (int i = 0; i < 256; ++i) codes[i] = static_cast<unsigned char>(i);
    std::vector<float> all(static_cast<size_t>(count));
    for (const char* recipe : {"", "dequantize/dequantize_generic/x86-64/any/run_time=1"}) {
      DequantizeCall call;
      call.x = TensorView::contiguous(codes, type, {1, count});
      call.out = TensorView::contiguous(all.data(), DType::kF32, {1, count});
      call.scale = TensorView::contiguous(&scale, DType::kF32, {1});
      call.recipe = recipe;
      const Status status = dequantize(*context, call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (int64_t i = 0; i < count; ++i) {
        const double want = load_element(type, codes, i), got = all[static_cast<size_t>(i)];
        EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want))
            << dtype_name(type) << " code " << i << ": " << got << ", expected " << want;
      }
    }
  }
}

TEST(Dequantize, BlocksOfRowsAndColumnsShareAScale) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  for (const char* sizes : {"m=129:n=257", "m=3x130:n=131", "m=2x3x257:n=40", "m=300:n=386:ss=0.0.1.3"}) {
    for (const char* x : {"x=e4m3:out=bf16", "x=e4m3:out=f32:scale=e8m0", "x=e2m1:out=f16"}) {
      const std::string text = fmt::format("{}:{}:quant=block", sizes, x);
      const VerifyReport report = run_row_problem(*context, dequantize_operator(), text);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
}

TEST(Dequantize, NVFP4HasTwoLevelsOfScales) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  for (const char* sizes : {"m=3:n=1", "m=5:n=31", "m=7:n=160", "m=2x3:n=4096"}) {
    for (const char* rest : {"out=f32", "out=bf16:tensor_scale=given", "out=f16:tensor_scale=given:group=32"}) {
      const std::string text = fmt::format("{}:x=e2m1:quant=group:scale=e4m3:{}", sizes, rest);
      const VerifyReport report = run_row_problem(*context, dequantize_operator(), text);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
}

TEST(Dequantize, WhatQuantizeWroteComesBackWithinHalfAStep) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kRows = 3, kLength = 200;
  std::vector<float> x(kRows * kLength), back(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37f) * static_cast<float>(i % 7);
  std::fill_n(x.begin() + kLength, kLength, 0.0f);
  std::vector<unsigned char> codes(x.size());
  std::vector<float> scales(kRows * 2);
  for (const Quantisation quant : {Quantisation::kRow, Quantisation::kGroup, Quantisation::kBlock}) {
    const int64_t groups = quant == Quantisation::kRow ? 1 : 2, down = quant == Quantisation::kBlock ? 1 : kRows;
    QuantizeCall there;
    there.x = TensorView::contiguous(x.data(), DType::kF32, {kRows, kLength});
    there.out = TensorView::contiguous(codes.data(), DType::kI8, {kRows, kLength});
    there.scale = TensorView::contiguous(scales.data(), DType::kF32, {down, groups});
    there.quant = quant;
    ASSERT_TRUE(quantize(*context, there).ok());
    DequantizeCall call;
    call.x = there.out, call.scale = there.scale, call.quant = quant;
    call.out = TensorView::contiguous(back.data(), DType::kF32, {kRows, kLength});
    ASSERT_TRUE(dequantize(*context, call).ok());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 6.0 / 127 / 2 * 1.001) << i;
  }
}

std::string random_dequantize_text(test::Random& random) {
  const int64_t m0 = test::pick(random, 1, 5), m1 = test::chance(random, 0.05) ? 0 : test::pick(random, 1, 9);
  const int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 0, test::chance(random, 0.1) ? 9000 : 400);
  const std::string x = test::pick_one(random, {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8", "e2m1"});
  const std::string quant = test::pick_one(random, {"tensor", "row", "group", "group", "block"});
  std::string text = fmt::format("m={}x{}:n={}:x={}:out={}:quant={}", m0, m1, n, x,
                                 test::pick_one(random, {"f32", "f16", "bf16"}), quant);
  if (quant == "group") {
    text += ":group=" + test::pick_one(random, {"16", "32", "64", "128"});
    if (x == "e2m1" && test::chance(random, 0.5)) {
      text += ":scale=e4m3:tensor_scale=" + test::pick_one(random, {"none", "given"});
    } else if (x != "i8" && test::chance(random, 0.5)) {
      text += ":scale=e8m0";
    }
    if (m1 > 0 && test::chance(random, 0.4)) text += fmt::format(":ss=0.{}.1.{}", m1, m0 * m1);
  }
  const int64_t step = n + n % 2 + 2 * test::pick(random, 0, 4);
  if (test::chance(random, 0.4)) text += fmt::format(":sx=0.{}.{}", m1 * step, step);
  if (test::chance(random, 0.4)) text += fmt::format(":so=0.{}.{}", step, m0 * step);
  return text;
}

TEST(DequantizeRandomProblems, EachHasTheReferencesValuesInEveryKernelThatIsBuilt) {
  test::check_random_row_problems(dequantize_operator(), 200, 83, random_dequantize_text, /*may_refuse=*/true);
}

TEST(Dequantize, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float data[32] = {}, scale[8] = {};
  signed char codes[32] = {};
  const auto refusal = [&](auto&& change) {
    DequantizeCall call;
    call.x = TensorView::contiguous(codes, DType::kI8, {4, 8});
    call.out = TensorView::contiguous(data, DType::kF32, {4, 8});
    call.scale = TensorView::contiguous(scale, DType::kF32, {4});
    change(call);
    const Status status = dequantize(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](DequantizeCall& c) { c.x.dtype = DType::kI32; }),
            "dequantize: argument 'x' is i32, allowed: e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, e2m1");
  EXPECT_EQ(refusal([](DequantizeCall& c) { c.out.dtype = DType::kI8; }),
            "dequantize: argument 'out' is i8, allowed: f32, f16, bf16");
  EXPECT_EQ(refusal([](DequantizeCall& c) { c.quant = Quantisation::kDynamic, c.scale.rank = 0; }),
            "dequantize: argument 'quant' is dynamic, allowed: tensor, row, group, block");
  EXPECT_EQ(refusal([](DequantizeCall& c) { c.scale = {}; }),
            "dequantize: argument 'scale' is missing: the input is i8");
  EXPECT_THAT(refusal([](DequantizeCall& c) { c.quant = Quantisation::kGroup, c.group = 8; }),
              HasSubstr("argument 'scale' has shape [4], expected [4, 1]"));
}

TEST(SlowDequantize, EveryCompiledInstanceIsRightOnEveryTail) {
  const std::unique_ptr<Context> context = row_context("on");
  const Operator& op = dequantize_operator();
  for (const char* text : {"m=8:n=64:x=e5m2fnuz:out=f16:quant=row", "m=8:n=64:x=e2m1:out=f32:quant=group:scale=e8m0"}) {
    const std::vector<std::byte> problem = *op.parse_problem(text);
    for (const std::vector<std::byte>& tail : op.tail_problems(problem)) {
      const VerifyReport report = run_row_problem(*context, op, op.problem_text(tail));
      EXPECT_TRUE(report.passed) << op.problem_text(tail) << ": " << report.failure;
    }
  }
}

}  // namespace
}  // namespace tilewright
