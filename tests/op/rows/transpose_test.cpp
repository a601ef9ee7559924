// SPDX-License-Identifier: MIT
// transpose through dispatch and the public API: every size of elements and tail, strides, batches; bits stay.
#include "tilewright/transpose.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "op/rows/random_row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(Transpose, EverySizeOfElementsAndTailKeepsItsBits) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"e4m3", "i8", "bf16", "f16", "f32"}) {
    for (const char* sizes : {"m=1:n=1", "m=1:n=300", "m=300:n=1", "m=64:n=64", "m=65:n=63", "m=128:n=192", "m=5:n=7",
                              "b=2x3x2:m=17:n=33", "b=0:m=4:n=4", "m=0:n=5", "m=5:n=0", "b=7:m=200:n=100"}) {
      const std::string text = fmt::format("{}:x={}", sizes, x);
      const VerifyReport report = run_row_problem(*context, transpose_operator(), text);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
}

// Outputs past the caches: high tiles, each next to the last one along rows of x, and lines that begin where the output's do.
TEST(Transpose, LargeMatricesOfAnyTailAndAlignmentKeepTheirBits) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text : {"m=2304:n=1024:x=bf16", "m=1100:n=2100:x=bf16", "m=3:n=900000:x=bf16", "m=900000:n=3:x=f16",
                           "m=1030:n=1041:x=f32", "m=33:n=40000:x=f32", "m=2100:n=2047:x=i8", "m=70:n=70001:x=i8",
                           "b=40:m=130:n=600:x=bf16", "b=3:m=700:n=1030:x=bf16:so=0.0.722100.701",
                           "b=3:m=700:n=1030:x=bf16:sx=0.0.-721000.-1030"}) {
    const VerifyReport report = run_row_problem(*context, transpose_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

std::string random_transpose_text(test::Random& random) {
  const int64_t b0 = test::pick(random, 1, 3), b1 = test::pick(random, 1, 3);
  const int64_t m = test::pick(random, 1, 150), n = test::pick(random, 1, 150);
  std::string text =
      fmt::format("b={}x1x{}:m={}:n={}:x={}", b0, b1, m, n, test::pick_one(random, {"i8", "bf16", "f32"}));
  const int64_t row = n + test::pick(random, 0, 9), row_out = m + test::pick(random, 0, 9);
  if (test::chance(random, 0.4)) text += fmt::format(":sx={}.0.{}.{}", b1 * m * row + 3, m * row, row);
  if (test::chance(random, 0.2)) text += fmt::format(":sx=0.0.{}.{}", -m * row, -row);
  // Matrices inside each other's rows.
  if (test::chance(random, 0.4)) text += fmt::format(":so={}.0.{}.{}", row_out, b0 * row_out, b0 * b1 * row_out);
  return text;
}

TEST(TransposeRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(transpose_operator(), 50, 61, random_transpose_text);
}

TEST(Transpose, ThePublicFunctionTakesViewsAndRefusesByName) {
  const std::unique_ptr<Context> context = row_context("off");
  float x[2][2][3] = {{{1, 2, 3}, {4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}}, out[3][2][2] = {};
  TransposeCall call;
  call.x = TensorView::contiguous(x, DType::kF32, {2, 2, 3});
  // [2, 3, 2] in memory as [3, 2, 2].
  call.out = TensorView::strided(out, DType::kF32, {2, 3, 2}, {2, 4, 1});
  const Status status = transpose(*context, call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) EXPECT_EQ(out[j][b][i], x[b][i][j]);
    }
  }
  const auto refusal = [&](auto&& change) {
    TransposeCall other = call;
    change(other);
    const Status refused = transpose(*context, other);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    return refused.message();
  };
  EXPECT_EQ(refusal([](TransposeCall& c) { c.out = {}; }), "transpose: argument 'out' is missing");
  EXPECT_EQ(refusal([](TransposeCall& c) { c.out.shape[1] = 2; }),
            "transpose: argument 'out' has shape [2, 2, 2], expected [2, 3, 2]");
  EXPECT_EQ(refusal([](TransposeCall& c) { c.out.dtype = DType::kI32; }),
            "transpose: argument 'out' is i32, 'x' is f32");
  EXPECT_EQ(refusal([&](TransposeCall& c) { c.out.data = x; }), "transpose: argument 'out' overlaps 'x'");
  EXPECT_THAT(refusal([](TransposeCall& c) { c.x = c.x.transposed(); }),
              HasSubstr("stride 3 along its last dimension"));
  EXPECT_THAT(refusal([](TransposeCall& c) { c.out.stride[0] = 0; }), HasSubstr("'out' overlaps itself"));
  EXPECT_EQ(refusal([](TransposeCall& c) { c.x.dtype = c.out.dtype = DType::kF4E2M1; }),
            "transpose: argument 'x' is e2m1, allowed: elements of 8, 16 and 32 bits");
}

}  // namespace
}  // namespace tilewright
