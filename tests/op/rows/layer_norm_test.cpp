// SPDX-License-Identifier: MIT
// layer_norm: means far from zero, rows of equal elements, NaN and infinity; what holds for every norm is in norms_test.cpp.
#include "tilewright/layer_norm.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "op/rows/row_problems.hpp"

namespace tilewright {
namespace {

using test::row_context;

constexpr const char* kRecipes[] = {"", "layer_norm/layer_norm_generic/x86-64/any/run_time=1"};

std::vector<float> normalised(const char* recipe, std::vector<float> x, int64_t n, float eps) {
  const std::unique_ptr<Context> context = row_context("off");
  std::vector<float> y(x.size());
  LayerNormCall call;
  const auto rows = static_cast<int64_t>(x.size()) / n;
  call.x = TensorView::contiguous(x.data(), DType::kF32, {rows, n});
  call.out = TensorView::contiguous(y.data(), DType::kF32, {rows, n});
  call.eps = eps, call.recipe = recipe;
  const Status status = layer_norm(*context, call);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return y;
}

// A sum of squares less the square of the sum would lose all of this variance.
TEST(LayerNorm, AMeanFarAboveTheDeviationCostsNoMoreThanTheElementsOwnRounding) {
  for (const char* recipe : kRecipes) {
    for (const int64_t n : {17, 1000, 4096, 100003}) {
      std::mt19937 random(static_cast<unsigned>(n));
      std::normal_distribution<float> normal(0, 1);
      std::vector<float> x(static_cast<size_t>(n));
      for (float& value : x) value = 1e4f + normal(random);
      double mean = 0, squares = 0;
      for (const float value : x) mean += value / static_cast<double>(n);
      for (const float value : x) squares += (value - mean) * (value - mean);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      const std::vector<float> y = normalised(recipe, x, n, 1e-5f);
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(y[i] - (x[i] - mean) * inverse));
      EXPECT_LT(worst, 2 * 1e4 * 0x1p-24 * inverse) << recipe << " n = " << n;
    }
  }
}

TEST(LayerNorm, RowsOfEqualElementsAreZeroToTheBit) {
  for (const char* recipe : kRecipes) {
    for (const float value : {0.0f, 0.1f, -1234.567f, 3e18f, 1e-41f}) {
      for (const int64_t n : {1, 3, 100, 1023, 4099, 300007}) {
        const std::vector<float> x(static_cast<size_t>(n), value);
        EXPECT_THAT(normalised(recipe, x, n, 1e-12f), testing::Each(0.0f)) << recipe << " " << value << " n = " << n;
      }
    }
  }
}

TEST(LayerNorm, NaNAndInfinityMakeTheirRowNaNAndNoOther) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const char* recipe : kRecipes) {
    for (const float bad : {kNaN, kInf, -kInf}) {
      constexpr size_t kLength = 70;
      std::vector<float> x(3 * kLength);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
      const std::vector<float> clean = normalised(recipe, x, kLength, 1e-5f);
      x[kLength + 66] = bad;
      const std::vector<float> y = normalised(recipe, x, kLength, 1e-5f);
      for (size_t i = 0; i < x.size(); ++i) {
        if (i / kLength == 1) {
          EXPECT_TRUE(std::isnan(y[i])) << recipe << " " << i;
        } else {
          EXPECT_EQ(y[i], clean[i]) << recipe << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
