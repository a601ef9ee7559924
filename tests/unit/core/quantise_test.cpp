// SPDX-License-Identifier: MIT
// The rules of quantising (docs/quantisation.md): scales, and codes without a branch, against their definitions.
#include "tile/common/quantise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace tilewright {
namespace {

constexpr DType kFloats[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz, DType::kF4E2M1};

// Every exponent, and mantissas near ties.
template <class Body>
void for_many_floats(Body&& body) {
  std::mt19937 random(3);
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (uint32_t top = 0; top < 64; ++top) {
      for (const uint32_t low : {0u, 1u, 0x1FFFFu, static_cast<uint32_t>(random() & 0x1FFFF)}) {
        const uint32_t bits = exponent << 23 | top << 17 | low;
        body(__builtin_bit_cast(float, bits));
        body(__builtin_bit_cast(float, bits | 0x80000000u));
      }
    }
  }
}

template <class Format>
void check_narrow_many() {
  for_many_floats([](float value) {
    const unsigned want = Format::narrow(std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value);
    ASSERT_EQ(narrow_many<Format>(value), want) << value;
  });
}

TEST(Quantise, CodesWithoutABranchAreThoseOfTheFormat) {
  check_narrow_many<e4m3::Format>();
  check_narrow_many<e5m2::Format>();
  check_narrow_many<e4m3fnuz::Format>();
  check_narrow_many<e5m2fnuz::Format>();
  check_narrow_many<e2m1x2::Format>();
}

TEST(Quantise, TheLargestValueOfEachTypeIsItsLimit) {
  EXPECT_EQ(quantised_limit(DType::kF8E4M3), e4m3::Format::widen(e4m3::Format::kLargest));
  EXPECT_EQ(quantised_limit(DType::kF8E5M2), e5m2::Format::widen(e5m2::Format::kLargest));
  EXPECT_EQ(quantised_limit(DType::kF8E4M3Fnuz), e4m3fnuz::Format::widen(e4m3fnuz::Format::kLargest));
  EXPECT_EQ(quantised_limit(DType::kF8E5M2Fnuz), e5m2fnuz::Format::widen(e5m2fnuz::Format::kLargest));
  EXPECT_EQ(quantised_limit(DType::kF4E2M1), e2m1x2::Format::widen(e2m1x2::Format::kLargest));
}

// By logarithms, in double, where the magnitude is no power of two within rounding of them.
TEST(Quantise, PowersOfTwoFollowTheirRule) {
  for_many_floats([](float amax) {
    if (!(amax > 0) || std::isinf(amax)) return;
    for (const DType dtype : kFloats) {
      const double max = quantised_limit(dtype), top = std::floor(std::log2(max));
      int exponent = 0;
      const bool power = std::frexp(amax, &exponent) == 0.5;
      const double floor_log = exponent - 1;  // frexp's fraction is below 1
      const auto code = [&](ScaleRounding rounding) {
        return static_cast<int>(power_scale_for(amax, dtype, rounding).bits);
      };
      const auto clamped = [](double e) { return static_cast<int>(std::clamp(e + 127, 0.0, 254.0)); };
      ASSERT_EQ(code(ScaleRounding::kDown), clamped(floor_log - top)) << amax << " " << dtype_name(dtype);
      ASSERT_EQ(code(ScaleRounding::kCeil), clamped(floor_log + (power ? 0 : 1) - top))
          << amax << " " << dtype_name(dtype);
      // The least power of two with which amax does not saturate.
      const int up = code(ScaleRounding::kUp);
      if (up > 0 && up < 254) {
        ASSERT_LE(amax / std::ldexp(1.0, up - 127), max);
        ASSERT_GT(amax / std::ldexp(1.0, up - 128), max);
      }
      const double unit = std::ldexp(1.0, exponent - 1 - mantissa_bits(dtype));
      const double rounded = std::floor(amax / unit + 0.5) * unit;
      ASSERT_EQ(code(ScaleRounding::kEven), clamped(std::floor(std::log2(rounded)) - top))
          << amax << " " << dtype_name(dtype);
    }
  });
}

TEST(Quantise, NaNInfinityAndZeroHaveScalesOfTheirOwn) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scale_for(0, DType::kF8E4M3), 1);
  EXPECT_EQ(scale_for(0x1p-149f, DType::kF8E4M3), 1);  // its quotient is 0
  EXPECT_EQ(scale_for(kInf, DType::kI8), kInf);
  EXPECT_TRUE(std::isnan(scale_for(kNaN, DType::kI8)));
  for (int i = 0; i < enum_count(ScaleRounding{}); ++i) {
    const auto rounding = static_cast<ScaleRounding>(i);
    EXPECT_EQ(power_scale_for(kNaN, DType::kF8E4M3, rounding).bits, 255);
    EXPECT_EQ(power_scale_for(kInf, DType::kF8E4M3, rounding).bits, 255);
    EXPECT_EQ(power_scale_for(0, DType::kF8E4M3, rounding).bits, 0);
  }
}

// A product and a correction are the division, where quantise.hpp says so.
TEST(Quantise, TheQuotientWithoutADivisionIsIEEEs) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto draw = [&](int reach) {
      const auto bits = static_cast<uint32_t>(random());
      const int exponent = 127 + static_cast<int>(random() % static_cast<uint64_t>(2 * reach)) - reach;
      return __builtin_bit_cast(float, (bits & 0x807FFFFFu) | static_cast<uint32_t>(exponent) << 23);
    };
    const float x = draw(60), scale = draw(60);
    const Divisor by = divisor_of(scale);
    ASSERT_TRUE(by.near_one);
    const float first = x * by.reciprocal;
    const float refined = std::fmaf(std::fmaf(first, -by.scale, x), by.reciprocal, first);
    ASSERT_EQ(refined, x / scale) << x << " / " << scale;
  }
}

}  // namespace
}  // namespace tilewright
