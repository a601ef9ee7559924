// SPDX-License-Identifier: MIT
// top_k through the public API and through dispatch: every size, ties, lengths, NaN.
#include "tilewright/top_k.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "op/rows/random_row_problems.hpp"
#include "support/ordered_rows.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::ElementsAre;

TEST(TopK, EverySizeAndTypeMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* sizes :
       {"m=1:n=1:k=1", "m=3:n=0:k=4", "m=9:n=5:k=8", "m=7:n=1000:k=64", "m=3:n=9001:k=2048", "m=2:n=40000:k=1"}) {
    for (const char* x : {"f32", "f16", "bf16"}) {
      for (const char* options : {"", ":lengths=1", ":values=0"}) {
        const std::string text = fmt::format("{}:x={}{}", sizes, x, options);
        for (const InputData data : {InputData::kNormal, InputData::kIntegers}) {
          const VerifyReport report = run_row_problem(*context, top_k_operator(), text, "", 1, data);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

std::string random_top_k_text(test::Random& random) {
  const int64_t n = test::pick(random, 0, test::chance(random, 0.2) ? 20000 : 600);
  const int64_t k = test::pick(random, 1, test::chance(random, 0.2) ? 2048 : 100);
  std::string text = fmt::format("m={}:n={}:k={}:x={}", test::pick(random, 0, 20), n, k,
                                 test::pick_one(random, {"f32", "f16", "bf16"}));
  const bool values = test::chance(random, 0.8);
  if (!values) text += ":values=0";
  if (test::chance(random, 0.5)) text += ":lengths=1";
  if (test::chance(random, 0.3)) text += fmt::format(":sx={}", n + test::pick(random, 0, 9));
  if (test::chance(random, 0.3)) text += fmt::format(":si={}", k + test::pick(random, 0, 9));
  if (values && test::chance(random, 0.3)) text += fmt::format(":sv={}", -k - test::pick(random, 0, 9));
  return text;
}

TEST(TopKRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(top_k_operator(), 300, 92, random_top_k_text);
}

TEST(TopK, TiesNaNAndWhatIsBehindARow) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* recipe : {"", "top_k/top_k_generic/x86-64/any/run_time=1"}) {
    float x[8] = {-0.0f, kNaN, 3, 0, -kInf, 3, kInf, kNaN}, values[9] = {};
    int indices[9] = {};
    int length = 7;
    TopKCall call;
    call.x = TensorView::contiguous(x, DType::kF32, {1, 8});
    call.values = TensorView::contiguous(values, DType::kF32, {1, 9});
    call.indices = TensorView::contiguous(indices, DType::kI32, {1, 9});
    call.lengths = TensorView::contiguous(&length, DType::kI32, {1});
    call.recipe = recipe;
    const Status status = top_k(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_THAT(indices, ElementsAre(6, 2, 5, 0, 3, 1, 4, -1, -1));
    EXPECT_EQ(values[0], kInf);
    EXPECT_EQ(values[2], 3);
    EXPECT_TRUE(std::signbit(values[3]) && std::isnan(values[5]));
    EXPECT_EQ(values[8], -kInf);
  }
}

// What is put aside is thinned out by the range of its keys.
TEST(TopK, RowsOfEveryOrderGiveTheBest) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int kLength = 20011;
  for (int kind = 0; kind < test::kOrderedRows; ++kind) {
    std::vector<float> x = test::ordered_row(kind, kLength);
    const std::vector<int> order = test::order_of_row(x);
    for (const int k : {1, 40, 600, 2048}) {
      for (const char* recipe : {"", "top_k/top_k_generic/x86-64/any/run_time=1"}) {
        std::vector<int> indices(static_cast<size_t>(k), -7);
        TopKCall call;
        call.x = TensorView::contiguous(x.data(), DType::kF32, {1, kLength});
        call.indices = TensorView::contiguous(indices.data(), DType::kI32, {1, k});
        call.recipe = recipe;
        const Status status = top_k(*context, call);
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(std::equal(indices.begin(), indices.end(), order.begin())) << "kind " << kind << ", k " << k;
      }
    }
  }
}

TEST(TopK, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float x[32] = {}, values[8] = {};
  int indices[8] = {};
  const auto refusal = [&](auto&& change) {
    TopKCall call;
    call.x = TensorView::contiguous(x, DType::kF32, {4, 8});
    call.values = TensorView::contiguous(values, DType::kF32, {4, 2});
    call.indices = TensorView::contiguous(indices, DType::kI32, {4, 2});
    change(call);
    const Status status = top_k(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([&](TopKCall& c) { c.indices = {}; }), "top_k: argument 'indices' is missing");
  EXPECT_EQ(refusal([&](TopKCall& c) { c.indices = TensorView::contiguous(indices, DType::kI32, {4, 1}); }),
            "top_k: argument 'values' has 2 columns, 'indices' has 1");
  EXPECT_EQ(refusal([&](TopKCall& c) { c.values.dtype = DType::kF16; }),
            "top_k: argument 'values' is f16, allowed: f32");
  EXPECT_EQ(refusal([&](TopKCall& c) { c.values.data = x; }), "top_k: argument 'values' overlaps 'x'");
  EXPECT_EQ(top_k_operator().parse_problem("m=1:n=9000:k=3000:x=f32").status().message(),
            "top_k: argument 'k' is 3000, allowed: 1 to 2048");
}

TEST(TopK, NoRowsWriteNothing) {
  const std::unique_ptr<Context> context = row_context("off");
  TopKCall call;
  call.x = TensorView::contiguous(nullptr, DType::kBf16, {0, 8});
  call.indices = TensorView::contiguous(nullptr, DType::kI32, {0, 3});
  EXPECT_TRUE(top_k(*context, call).ok());
  EXPECT_TRUE(top_k_prepare(*context, call).ok());
}

}  // namespace
}  // namespace tilewright
