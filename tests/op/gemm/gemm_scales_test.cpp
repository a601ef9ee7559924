// SPDX-License-Identifier: MIT
// Scales of groups along K through the public API: every mode against the reference, and what 0, infinity, NaN and
// subnormal scales give: IEEE arithmetic on the dequantised values.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/tolerance.hpp"
#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "op/gemm/built_context.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

void check_text(const std::string& text, InputData data) {
  SCOPED_TRACE(text);
  const Operator& op = gemm_operator();
  Result<std::vector<std::byte>> problem = op.parse_problem(text);
  ASSERT_TRUE(problem.ok()) << problem.status().to_string();
  auto instance = op.instantiate(*problem, test::built_context().impl().device(), {});
  ASSERT_TRUE(instance.ok()) << instance.status().to_string();
  (*instance)->fill(3, data);
  (*instance)->poison();
  const Status status = test::built_context().impl().run(op, *problem, (*instance)->bindings(), {}, "");
  ASSERT_TRUE(status.ok()) << status.to_string();
  const VerifyReport report = (*instance)->verify();
  EXPECT_TRUE(report.passed) << report.failure;
}

TEST(GemmScaleModes, EachMatchesTheReference) {
  for (const char* mode :
       {"a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128", "a=e4m3:scale_a=f32.1x128.0.1.70:scale_b=f32.128x128",
        "a=e4m3:b=e5m2:scale_a=e8m0.1x32:scale_b=e8m0.1x32", "a=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
        "a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16:alpha=1", "a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32",
        "a=bf16:b=e2m1:scale_b=e8m0.1x32", "a=e4m3fnuz:b=e2m1:scale_b=bf16.1x64", "a=bf16:scale_b=f16.1x32:packed=1",
        "a=i8:d=f32:scale_a=f32.1x128:scale_b=f32.128x128", "a=i8:scale_a=f32:scale_b=bf16.1x64:packed=1",
        "a=f32:scale_a=f16.128x16:scale_b=f32.1x128", "a=f16:b=e4m3:scale_b=f32",
        "a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=f16:b=i4:scale_b=bf16.1x32",
        "a=bf16:b=i8:scale_b=f32.1x64:zero_b=i8", "a=bf16:b=i8:scale_b=f32:packed=1",
        "a=bf16:b=u4:scale_b=f32.128x64:zero_b=bf16", "a=f16:b=u4:layout=rrr:scale_b=f16.1x64:zero_b=f32"}) {
    for (const char* sizes : {"m=70:n=130:k=300", "m=1:n=200:k=127", "m=33:n=64:k=32:batch=2:gate=separated:act=silu",
                              "m=5:n=6:k=259:gate=interleaved:bias=f32", "m=3:n=4:k=0:bias=f32"}) {
      if (std::string_view(mode).find("0.1.70") != std::string_view::npos && sizes[2] != '7') continue;
      for (const InputData data : {InputData::kNormal, InputData::kPositive}) {
        check_text(fmt::format("{}:{}", sizes, mode), data);
      }
    }
  }
}

// A [1, 32], B [32, 1], e5m2 (which has infinities), two groups of 16, which no kernel sums apart: the value of each product's
// group is known.
struct Special {
  float scale_a[2], scale_b[2];
};

double dequantised_sum(const std::vector<float>& a, const std::vector<float>& b, const Special& s) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const volatile float x = a[k] * s.scale_a[k / 16], y = b[k] * s.scale_b[k / 16];  // rounded to f32
    sum += static_cast<double>(x) * static_cast<double>(y);
  }
  return sum;
}

TEST(GemmScaleModes, SpecialScalesGiveWhatIeeeArithmeticGives) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kSpecials[] = {0.0f, -0.0f, kInf, -kInf, kNan, 1e-45f, 1e-39f, 3e38f, 1e-30f, 1.0f};
  const std::vector<std::vector<float>> rows = {
      {1, 2, 3, 4}, {1, -2, 3, -4}, {0, 1, 0, 2}, {0, 0, 0, 0}, {kInf, 1, 1, 1}};
  int nans = 0, infinities = 0;
  for (const std::vector<float>& row : rows) {
    for (const float first : kSpecials) {
      for (const float second : kSpecials) {
        std::vector<float> a(32), b(32);
        for (size_t k = 0; k < 32; ++k) a[k] = row[k % 4], b[k] = k % 8 < 4 ? 1.5f : 0.5f;
        const Special s{{first, 1}, {1, second}};
        std::vector<uint8_t> a_codes(32), b_codes(32);
        for (int64_t k = 0; k < 32; ++k) {
          store_element(DType::kF8E5M2, a_codes.data(), k, a[static_cast<size_t>(k)]);
          store_element(DType::kF8E5M2, b_codes.data(), k, b[static_cast<size_t>(k)]);
          if (std::isinf(a[static_cast<size_t>(k)])) a_codes[static_cast<size_t>(k)] = 0x7C;  // stores saturate
        }
        float d = 7, reference = 7;
        GemmCall call;
        call.a = TensorView::contiguous(a_codes.data(), DType::kF8E5M2, {1, 32});
        call.b = TensorView::contiguous(b_codes.data(), DType::kF8E5M2, {32, 1});
        call.d = TensorView::contiguous(&d, DType::kF32, {1, 1});
        call.scale_a = TensorView::contiguous(const_cast<float*>(s.scale_a), DType::kF32, {1, 2});
        call.scale_b = TensorView::contiguous(const_cast<float*>(s.scale_b), DType::kF32, {2, 1});
        call.scale_group_a = call.scale_group_b = {1, 16};
        ASSERT_TRUE(gemm(test::built_context(), call).ok());
        call.d.data = &reference;
        ASSERT_TRUE(gemm_reference(call).ok());
        const double want = dequantised_sum(a, b, s);
        const double allowed = std::fabs(want) * 0x1p-20 + 0x1p-149;
        const double largest = largest_finite(DType::kF32);
        EXPECT_LE(error_ratio(d, want, allowed, largest), 1) << first << " " << second << ": " << d << ", not " << want;
        EXPECT_LE(error_ratio(reference, want, allowed, largest), 1) << first << " " << second << ": " << reference;
        nans += std::isnan(want) ? 1 : 0;
        infinities += std::isinf(want) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(nans, 50);
  EXPECT_GT(infinities, 50);
}

TEST(GemmScaleModes, SpecialZeroPointsGiveWhatIeeeArithmeticGives) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint8_t> a(128), b(32);
  for (int64_t k = 0; k < 64; ++k) {
    store_element(DType::kBf16, a.data(), k, static_cast<double>(k % 5) - 2);
    store_element(DType::kU4, b.data(), k, static_cast<double>(k % 16));
  }
  // Groups of 16: the kernels that sum integers and zero points apart do not serve them.
  for (const float zero : {0.0f, 7.5f, 1e-45f, kInf, -kInf, kNan}) {
    for (const float scale : {0.0f, 1.0f, 1e-40f, 3e38f, kInf, kNan}) {
      const float zeros[4] = {zero, 1, 1, 2}, scales[4] = {scale, 0.5f, 1, 2};
      float d = 7, reference = 7;
      double want = 0;
      for (int64_t k = 0; k < 64; ++k) {
        const volatile float less = static_cast<float>(k % 16) - zeros[k / 16], value = less * scales[k / 16];
        want += load_element(DType::kBf16, a.data(), k) * static_cast<double>(value);
      }
      GemmCall call;
      call.a = TensorView::contiguous(a.data(), DType::kBf16, {1, 64});
      call.b = TensorView::contiguous(b.data(), DType::kU4, {1, 64}).transposed();
      call.d = TensorView::contiguous(&d, DType::kF32, {1, 1});
      call.scale_b = TensorView::contiguous(const_cast<float*>(scales), DType::kF32, {4, 1});
      call.zero_b = TensorView::contiguous(const_cast<float*>(zeros), DType::kF32, {4, 1});
      call.scale_group_b = {1, 16};
      ASSERT_TRUE(gemm(test::built_context(), call).ok());
      call.d.data = &reference;
      ASSERT_TRUE(gemm_reference(call).ok());
      const double allowed = std::fabs(want) * 0x1p-18 + 0x1p-20, largest = largest_finite(DType::kF32);
      EXPECT_LE(error_ratio(d, want, allowed, largest), 1) << zero << " " << scale << ": " << d << ", not " << want;
      EXPECT_LE(error_ratio(reference, want, allowed, largest), 1) << zero << " " << scale << ": " << reference;
    }
  }
}

TEST(GemmScaleModes, TheNanOfPowersOfTwoReachesItsGroupOnly) {
  std::vector<uint8_t> a(64, 0x38), b(128, 0x38);  // 1 in e4m3
  std::vector<uint8_t> scale_b = {127, 255, 127, 0};
  float d[2] = {};
  GemmCall call;
  call.a = TensorView::contiguous(a.data(), DType::kF8E4M3, {1, 64});
  call.b = TensorView::contiguous(b.data(), DType::kF8E4M3, {2, 64}).transposed();
  call.d = TensorView::contiguous(d, DType::kF32, {1, 2});
  call.scale_b = TensorView::contiguous(scale_b.data(), DType::kE8M0, {2, 2}).transposed();
  call.scale_group_b = {1, 32};
  ASSERT_TRUE(gemm(test::built_context(), call).ok());
  EXPECT_TRUE(std::isnan(d[0]));
  EXPECT_EQ(d[1], 32.0f);  // and 32 * 2^-127, less than half of its last bit
}

}  // namespace
}  // namespace tilewright
