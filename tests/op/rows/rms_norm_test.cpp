// SPDX-License-Identifier: MIT
// rms_norm through dispatch and the public API: every type, size, stride and quantiser equals the float64 reference.
#include "tilewright/rms_norm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "op/rows/row_problems.hpp"
#include "tile/common/numeric.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

using test::row_context;
using testing::HasSubstr;

TensorView rows_of(void* data, DType dtype, int64_t m, int64_t n) {
  return TensorView::contiguous(data, dtype, {m, n});
}

std::vector<float> normal_values(size_t count, float deviation = 1) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// What it writes as codes and scales is what quantising its own f32 output gives, to the bit.
TEST(RmsNorm, QuantisedCodesAndScalesAreThoseOfItsF32OutputToTheBit) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kRows = 5, kLength = 429;
  std::vector<float> x = normal_values(kRows * kLength, 3), y(kRows * kLength);
  RmsNormCall plain;
  plain.x = rows_of(x.data(), DType::kF32, kRows, kLength), plain.out = rows_of(y.data(), DType::kF32, kRows, kLength);
  plain.recipe = "rms_norm/rms_norm_generic/x86-64/any/run_time=1";
  ASSERT_TRUE(rms_norm(*context, plain).ok());
  for (const DType dtype :
       {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz, DType::kI8, DType::kF4E2M1}) {
    for (const int group : {0, 16, 32, 64, 128}) {
      for (const DType scale_dtype : {DType::kF32, DType::kE8M0, DType::kF8E4M3}) {
        const bool power = scale_dtype == DType::kE8M0, multiple = scale_dtype == DType::kF8E4M3;
        if (multiple && (group == 0 || dtype != DType::kF4E2M1)) continue;
        if (power && (group == 0 || dtype == DType::kI8)) continue;
        for (int rounding = 0; rounding < (power ? 4 : 1); ++rounding) {
          const int64_t each = group == 0 ? kLength : group, groups = (kLength + each - 1) / each;
          const int64_t pitch = dtype == DType::kF4E2M1 ? kLength + 1 : kLength;
          std::vector<unsigned char> codes(kRows * pitch), scales(4 * kRows * groups);
          RmsNormCall call = plain;
          call.out = TensorView::strided(codes.data(), dtype, {kRows, kLength}, {pitch, 1});
          call.quant = group == 0 ? Quantisation::kRow : Quantisation::kGroup;
          call.group = group;
          call.scale = rows_of(scales.data(), scale_dtype, kRows, groups);
          call.rounding = static_cast<ScaleRounding>(rounding);
          float of_tensor = tensor_scale_for(2.5f, dtype);
          if (multiple) call.tensor_scale = TensorView::contiguous(&of_tensor, DType::kF32, {1});
          const Status status = rms_norm(*context, call);
          ASSERT_TRUE(status.ok()) << status.to_string();
          for (int64_t i = 0; i < kRows * kLength; ++i) {
            const int64_t row = i / kLength, column = i % kLength, g = column / each;
            float most = 0;
            for (int64_t n = g * each; n < std::min(kLength, (g + 1) * each); ++n) {
              most = std::max(most, std::fabs(y[row * kLength + n]));
            }
            const e4m3 times = multiple_scale_for(most, dtype, of_tensor);
            const float want = power      ? widen(power_scale_for(most, dtype, call.rounding))
                               : multiple ? widen(times)
                                          : scale_for(most, dtype);
            const double scale = load_element(scale_dtype, scales.data(), row * groups + g);
            ASSERT_EQ(scale, want) << dtype_name(dtype) << " group " << group;
            unsigned char code[1] = {};
            store_element(dtype, code, 0, y[i] / (multiple ? multiple_divisor(times, of_tensor) : want));
            ASSERT_EQ(load_element(dtype, codes.data(), row * pitch + column), load_element(dtype, code, 0))
                << dtype_name(dtype) << " of " << y[i] << " / " << want;
          }
        }
      }
    }
  }
}

TEST(RmsNorm, TheSumMayStandWhereTheResidualOrTheInputStood) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kRows = 4, kLength = 1111;
  const std::vector<float> x = normal_values(kRows * kLength), residual = normal_values(kRows * kLength, 2);
  std::vector<float> weight = normal_values(kLength), apart(x.size()), apart_sum(x.size());
  std::vector<float> input = x, added = residual;
  RmsNormCall call;
  call.x = rows_of(input.data(), DType::kF32, kRows, kLength);
  call.residual = rows_of(added.data(), DType::kF32, kRows, kLength);
  call.weight = TensorView::contiguous(weight.data(), DType::kF32, {kLength});
  call.residual_out = rows_of(apart_sum.data(), DType::kF32, kRows, kLength);
  call.out = rows_of(apart.data(), DType::kF32, kRows, kLength);
  ASSERT_TRUE(rms_norm(*context, call).ok());
  RmsNormCall in_place = call;
  in_place.residual_out = call.residual, in_place.out = call.x;
  ASSERT_TRUE(rms_norm(*context, in_place).ok());
  EXPECT_EQ(input, apart);
  EXPECT_EQ(added, apart_sum);
  // The other way round.
  input = x, added = residual;
  in_place.residual_out = call.x, in_place.out = call.residual;
  ASSERT_TRUE(rms_norm(*context, in_place).ok());
  EXPECT_EQ(added, apart);
  EXPECT_EQ(input, apart_sum);
}

TEST(RmsNorm, ARowHasTheSameBitsAmongAnyNumberOfRowsAndThreads) {
  constexpr int64_t kRows = 37, kLength = 3001;
  std::vector<float> x = normal_values(kRows * kLength), all(x.size()), one(kLength);
  RmsNormCall call;
  call.x = rows_of(x.data(), DType::kF32, kRows, kLength), call.out = rows_of(all.data(), DType::kF32, kRows, kLength);
  ASSERT_TRUE(rms_norm(*row_context("off", 3), call).ok());
  const std::unique_ptr<Context> context = row_context("off", 1);
  for (int64_t row = 0; row < kRows; ++row) {
    call.x = rows_of(x.data() + row * kLength, DType::kF32, 1, kLength),
    call.out = rows_of(one.data(), DType::kF32, 1, kLength);
    ASSERT_TRUE(rms_norm(*context, call).ok());
    ASSERT_EQ(0, std::memcmp(one.data(), all.data() + row * kLength, sizeof(float) * kLength)) << row;
  }
}

TEST(RmsNorm, NaNInfinityAndZerosComeOutAsDocumented) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const char* recipe : {"", "rms_norm/rms_norm_generic/x86-64/any/run_time=1"}) {
    const std::unique_ptr<Context> context = row_context("off");
    constexpr int64_t kLength = 40;
    std::vector<float> x(3 * kLength, 1), y(3 * kLength);
    x[3] = kNaN, x[kLength + 5] = -kInf;
    std::fill_n(x.begin() + 2 * kLength, kLength, 0.0f);
    RmsNormCall call;
    call.recipe = recipe;
    call.x = rows_of(x.data(), DType::kF32, 3, kLength), call.out = rows_of(y.data(), DType::kF32, 3, kLength);
    ASSERT_TRUE(rms_norm(*context, call).ok());
    for (int64_t i = 0; i < kLength; ++i) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
      EXPECT_TRUE(i == 5 ? std::isnan(y[kLength + i]) : y[kLength + i] == 0) << i;
      EXPECT_EQ(y[2 * kLength + i], 0);
    }
    // Quantised: a NaN in a group makes its scale NaN, zeros have the scale 1, or 2^-127.
    std::vector<unsigned char> codes(3 * kLength), powers(6);
    float scales[3];
    call.out = rows_of(codes.data(), DType::kF8E4M3, 3, kLength);
    call.quant = Quantisation::kRow, call.scale = TensorView::contiguous(scales, DType::kF32, {3});
    ASSERT_TRUE(rms_norm(*context, call).ok());
    EXPECT_TRUE(std::isnan(scales[0]));
    EXPECT_TRUE(std::isnan(scales[1]));
    EXPECT_EQ(scales[2], 1);
    EXPECT_EQ(codes[2 * kLength] & 0x7F, 0);
    EXPECT_TRUE(std::isnan(load_element(DType::kF8E4M3, codes.data(), 0)));
    call.quant = Quantisation::kGroup, call.scale = rows_of(powers.data(), DType::kE8M0, 3, 2);
    ASSERT_TRUE(rms_norm(*context, call).ok());
    EXPECT_THAT(powers, testing::ElementsAre(255, 255, 255, 0, 0, 0));
  }
}

// A given scale: what lies beyond the type's range saturates, an infinite quotient too.
TEST(RmsNorm, AGivenScaleSaturates) {
  for (const char* recipe : {"", "rms_norm/rms_norm_generic/x86-64/any/run_time=1"}) {
    const std::unique_ptr<Context> context = row_context("off");
    std::vector<float> x = {3, -3, 3, -3, 1, 0, 2, -2, 3, -3, 3, -3, 1, 0, 2, -2};
    for (const float scale : {1e-3f, 1e-38f, 1e-42f}) {
      float given = scale;
      signed char codes[16];
      RmsNormCall call;
      call.recipe = recipe;
      call.x = rows_of(x.data(), DType::kF32, 1, 16), call.out = rows_of(codes, DType::kI8, 1, 16);
      call.quant = Quantisation::kTensor, call.scale = TensorView::contiguous(&given, DType::kF32, {});
      const Status status = rms_norm(*context, call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(codes[0], 127) << scale;
      EXPECT_EQ(codes[1], -128) << scale;
      EXPECT_EQ(codes[5], 0) << scale;
    }
  }
}

TEST(RmsNorm, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float data[256] = {};
  const TensorView x = rows_of(data, DType::kF32, 4, 8), out = rows_of(data + 64, DType::kF32, 4, 8);
  const auto refusal = [&](auto&& change) {
    RmsNormCall call;
    call.x = x, call.out = out;
    change(call);
    const Status status = rms_norm(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.x = {}; }), "rms_norm: argument 'x' is missing");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.out.shape[1] = 7; }),
            "rms_norm: argument 'out' has shape [4, 7], expected [4, 8], that of 'x'");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.x.dtype = DType::kI8; }),
            "rms_norm: argument 'x' is i8, allowed: f32, f16, bf16");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.x.stride[1] = 2; }),
            "rms_norm: argument 'x' has stride 2 along its last dimension, allowed: 1");
  EXPECT_EQ(refusal([&](RmsNormCall& c) { c.weight = TensorView::contiguous(data + 128, DType::kF32, {9}); }),
            "rms_norm: argument 'weight' has shape [9], expected [8]");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.eps = -1; }), "rms_norm: argument 'eps' is -1, allowed: 0 and above");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.unit_offset = true; }),
            "rms_norm: argument 'unit_offset' is true, and there is no 'weight'");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.out.dtype = DType::kI8; }),
            "rms_norm: argument 'out' is i8: 'quant' is none, allowed: tensor, row, group");
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.out.dtype = DType::kI8, c.quant = Quantisation::kRow; }),
            "rms_norm: argument 'scale' is missing: the output is i8");
  EXPECT_EQ(refusal([&](RmsNormCall& c) {
              c.out.dtype = DType::kI8, c.quant = Quantisation::kGroup,
              c.scale = rows_of(data + 128, DType::kF32, 4, 2);
            }),
            "rms_norm: argument 'scale' has shape [4, 2], expected [4, 1]");
  EXPECT_EQ(refusal([&](RmsNormCall& c) {
              c.out.dtype = DType::kI8, c.quant = Quantisation::kGroup, c.group = 48,
              c.scale = rows_of(data + 128, DType::kF32, 4, 1);
            }),
            "rms_norm: argument 'group' is 48, allowed: 16, 32, 64, 128");
  EXPECT_EQ(refusal([&](RmsNormCall& c) { c.residual_out = out; }),
            "rms_norm: argument 'residual_out' is given without 'residual'");
  EXPECT_EQ(refusal([&](RmsNormCall& c) { c.out = rows_of(data + 4, DType::kF32, 4, 8); }),
            "rms_norm: argument 'out' overlaps 'x' without being the same elements");
  EXPECT_THAT(refusal([&](RmsNormCall& c) { c.out.stride[0] = 4; }), HasSubstr("overlaps itself"));
  EXPECT_EQ(refusal([](RmsNormCall& c) { c.out.data = nullptr; }), "rms_norm: argument 'out' has a null data pointer");
}

TEST(RmsNorm, OuterDimensionsThatStayApartAreThreeAtMost) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> data(4096), out(4096);
  RmsNormCall call;
  call.x = TensorView::strided(data.data(), DType::kF32, {2, 2, 2, 2, 8}, {16 * 27, 16 * 9, 16 * 3, 16, 1});
  call.out = TensorView::contiguous(out.data(), DType::kF32, {2, 2, 2, 2, 8});
  EXPECT_THAT(rms_norm(*context, call).message(), HasSubstr("has 4 outer dimensions"));
  call.x = TensorView::strided(data.data(), DType::kF32, {2, 2, 2, 2, 8}, {16 * 27, 16 * 9, 32, 16, 1});
  call.out = TensorView::contiguous(out.data(), DType::kF32, {2, 2, 2, 2, 8});
  EXPECT_TRUE(rms_norm(*context, call).ok());
}

}  // namespace
}  // namespace tilewright
