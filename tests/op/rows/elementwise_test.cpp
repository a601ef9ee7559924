// SPDX-License-Identifier: MIT
// elementwise through dispatch and the public API.
#include "tilewright/elementwise.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "op/rows/random_row_problems.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

TEST(Elementwise, EveryTypeAndArithmeticMatchesTheReference) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* out : {"f32", "f16", "bf16", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8"}) {
      for (const char* option : {"", ":residual=f32:arithmetic=add", ":residual=bf16:arithmetic=mul",
                                 ":residual=f16:arithmetic=add:single=1"}) {
        for (const char* sizes : {"m=5:n=77", "m=3:n=128", "m=0:n=3", "m=1:n=1", "m=2:n=17000"}) {
          const std::string text = fmt::format("{}:x={}:out={}{}", sizes, x, out, option);
          const VerifyReport report = run_row_problem(*context, elementwise_operator(), text);
          EXPECT_TRUE(report.passed) << text << ": " << report.failure;
        }
      }
    }
  }
}

std::string random_elementwise_text(test::Random& random) {
  const int64_t a = test::pick(random, 1, 5), b = test::pick(random, 1, 6), n = test::pick(random, 1, 500);
  std::string text = fmt::format("m={}x{}:n={}:x={}:out={}", a, b, n, test::pick_one(random, {"f32", "f16", "bf16"}),
                                 test::pick_one(random, {"f32", "f16", "bf16", "e4m3", "i8"}));
  if (test::chance(random, 0.7)) {
    const bool single = test::chance(random, 0.4);
    text += fmt::format(":residual={}:arithmetic={}", test::pick_one(random, {"f32", "f16", "bf16"}),
                        test::pick_one(random, {"add", "mul"}));
    if (single) text += ":single=1";
    if (test::chance(random, 0.5)) text += fmt::format(":sr=0.{}.{}", test::pick(random, 0, 1) * 600, 0);
  }
  return text;
}
TEST(ElementwiseRandomProblems, EachEqualsTheReference) {
  test::check_random_row_problems(elementwise_operator(), 80, 59, random_elementwise_text);
}

TEST(Elementwise, TheSecondOperandIsBroadcastAsPyTorchDoes) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x(2 * 3 * 4), b(24), out(24);
  std::iota(x.begin(), x.end(), 0.0f), std::iota(b.begin(), b.end(), 100.0f);
  const auto check = [&](std::initializer_list<int64_t> shape, auto&& at) {
    ElementwiseCall call;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {2, 3, 4});
    call.out = TensorView::contiguous(out.data(), DType::kF32, {2, 3, 4});
    call.b = TensorView::contiguous(b.data(), DType::kF32, shape);
    call.arithmetic = Arithmetic::kAdd;
    const Status status = elementwise(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(out[i], x[i] + b[at(i / 12, i / 4 % 3, i % 4)]) << i;
  };
  check({4}, [](size_t, size_t, size_t k) { return k; });
  check({1}, [](size_t, size_t, size_t) { return size_t{0}; });
  check({}, [](size_t, size_t, size_t) { return size_t{0}; });
  check({3, 1}, [](size_t, size_t j, size_t) { return j; });
  check({2, 1, 1}, [](size_t i, size_t, size_t) { return i; });
  check({2, 1, 4}, [](size_t i, size_t, size_t k) { return 4 * i + k; });
  check({3, 4}, [](size_t, size_t j, size_t k) { return 4 * j + k; });
}

TEST(Elementwise, CastsSaturateAndKeepNan) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x{1e9f, -1e9f, 449, 3.3f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<uint8_t> codes(5);
  ElementwiseCall call;
  call.x = TensorView::contiguous(x.data(), DType::kF32, {5});
  call.out = TensorView::contiguous(codes.data(), DType::kF8E4M3, {5});
  const Status status = elementwise(*context, call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const double want[] = {448, -448, 448, 3.25};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(load_element(DType::kF8E4M3, codes.data(), i), want[i]);
  EXPECT_TRUE(std::isnan(load_element(DType::kF8E4M3, codes.data(), 4)));
}

TEST(Elementwise, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> x(24), out(24);
  const auto refusal = [&](auto&& change) {
    ElementwiseCall call;
    call.x = call.b = TensorView::contiguous(x.data(), DType::kF32, {2, 12});
    call.out = TensorView::contiguous(out.data(), DType::kF32, {2, 12});
    call.arithmetic = Arithmetic::kMul;
    change(call);
    const Status status = elementwise(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](ElementwiseCall& c) { c.b = {}; }),
            "elementwise: argument 'b' and the arithmetic 'mul' do not fit");
  EXPECT_THAT(refusal([](ElementwiseCall& c) { c.b.shape[1] = 6; }),
              HasSubstr("argument 'b' has shape [2, 6], expected [2, 12]"));
  EXPECT_THAT(refusal([](ElementwiseCall& c) { c.out.dtype = DType::kI32; }),
              HasSubstr("argument 'out' is i32, allowed: f32, f16, bf16, e4m3"));
  EXPECT_THAT(refusal([](ElementwiseCall& c) { c.out.data = static_cast<float*>(c.x.data) + 1; }),
              HasSubstr("'out' overlaps"));
}

}  // namespace
}  // namespace tilewright
