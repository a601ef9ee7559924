// SPDX-License-Identifier: MIT
// Conversions of small floats against a search for the nearest code, and all codes against the definition of a float.
#include <gmock/gmock.h>

#include "emulated/amd/matrix/wave.hpp"
#include "tile/emu/matrix/convert.hpp"

namespace tilewright::emulated {
namespace {

// Magnitudes of a format's finite codes, by code.
std::vector<double> magnitudes(int exponent_bits, int mantissa_bits, int bias, int largest_code) {
  std::vector<double> values;
  for (int code = 0; code <= largest_code; ++code) {
    values.push_back(float_value(static_cast<unsigned>(code), exponent_bits, mantissa_bits, bias));
  }
  return values;
}

// The nearest magnitude's code, ties to even; -1 beyond the largest, where rounding would want a code that is not there.
int nearest_code(const std::vector<double>& values, double magnitude) {
  const auto last = static_cast<int>(values.size()) - 1;
  const double beyond = 2 * values.back() - values[values.size() - 2];
  int best = -1;
  double distance = std::fabs(beyond - magnitude);
  if (magnitude > beyond) return -1;
  for (int code = last; code >= 0; --code) {
    const double d = std::fabs(values[static_cast<size_t>(code)] - magnitude);
    const bool better_tie = d == distance && code % 2 == 0;
    if (d < distance || better_tie) best = code, distance = d;
  }
  return best;
}

// Every value, every midpoint and its neighbours, and random floats of all exponents.
std::vector<float> probes(const std::vector<double>& values) {
  std::vector<float> all = {0.0f, 1e-38f, 1e-45f, 3e38f};
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    for (const double v : {values[i], (values[i] + values[i + 1]) / 2}) {
      const auto f = static_cast<float>(v);
      all.insert(all.end(), {f, std::nextafterf(f, 0), std::nextafterf(f, 1e38f)});
    }
  }
  const double last = values.back(), step = last - values[values.size() - 2];
  for (const double v : {last, last + step / 4, last + step / 2, last + step, 4 * last}) {
    const auto f = static_cast<float>(v);
    all.insert(all.end(), {f, std::nextafterf(f, 0), std::nextafterf(f, 1e38f)});
  }
  std::mt19937_64 random(31);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<std::uint32_t>((100 + random() % 48) << 23 | random() % (1 << 23));
    all.push_back(__builtin_bit_cast(float, bits));
  }
  return all;
}

template <MatrixTarget kTarget, bool kBf8>
void check_f8(int exponent_bits, int mantissa_bits, int bias, int largest_code, unsigned infinity, unsigned nan) {
  const bool fnuz = kTarget == MatrixTarget::kGfx942;
  const std::vector<double> values = magnitudes(exponent_bits, mantissa_bits, bias, largest_code);
  for (const float probe : probes(values)) {
    const int code = nearest_code(values, probe);
    for (const unsigned sign : {0u, 0x80u}) {
      const float value = sign != 0 ? -probe : probe;
      const unsigned signed_zero = fnuz ? 0 : sign;
      const unsigned finite = code == 0 ? signed_zero : sign | static_cast<unsigned>(code);
      const unsigned overflow = fnuz ? nan : sign | infinity;
      const unsigned saturated = sign | static_cast<unsigned>(largest_code);
      const auto got = emu::cvt_pk_f8_f32<kTarget, kBf8>(value, 0, 0xABCD0000u, false);
      ASSERT_EQ(got, 0xABCD0000u | (code < 0 ? overflow : finite)) << value;
      const auto high = emu::cvt_pk_f8_f32<kTarget, kBf8>(0, value, 0x1234u, true, true);
      ASSERT_EQ(high, 0x1234u | (code < 0 ? saturated : finite) << 24) << value;
    }
  }
  for (unsigned code = 0; code < 256; ++code) {
    const auto element = kBf8 ? MatrixElement::kB8 : MatrixElement::kF8;
    const double want = element_value(element, kTarget, code);
    const float got = emu::cvt_f32_f8<kTarget, kBf8>(code << 16, 2);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << code;
    } else {
      EXPECT_EQ(got, want) << code;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << code;
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ((emu::cvt_pk_f8_f32<kTarget, kBf8>(inf, std::nanf(""), 0, false)), infinity | nan << 8);
}

TEST(EmulatedConvert, Fp8AndBf8RoundToTheNearestCodeAndOverflowAsTheTargetDoes) {
  check_f8<MatrixTarget::kGfx942, false>(4, 3, 8, 0x7F, 0x80, 0x80);
  check_f8<MatrixTarget::kGfx942, true>(5, 2, 16, 0x7F, 0x80, 0x80);
  check_f8<MatrixTarget::kGfx950, false>(4, 3, 7, 0x7E, 0x7F, 0x7F);
  check_f8<MatrixTarget::kGfx950, true>(5, 2, 15, 0x7B, 0x7C, 0x7E);
  check_f8<MatrixTarget::kGfx1201, false>(4, 3, 7, 0x7E, 0x7F, 0x7F);
  check_f8<MatrixTarget::kGfx1201, true>(5, 2, 15, 0x7B, 0x7C, 0x7E);
}

TEST(EmulatedConvert, FormatsWithoutInfinitySaturate) {
  const auto check = [](auto format, int exponent_bits, int mantissa_bits, int bias) {
    using Format = decltype(format);
    const std::vector<double> values = magnitudes(exponent_bits, mantissa_bits, bias, Format::kLargest);
    for (const float probe : probes(values)) {
      int code = nearest_code(values, probe);
      if (code < 0) code = Format::kLargest;
      ASSERT_EQ(Format::narrow(probe), static_cast<unsigned>(code)) << probe;
      ASSERT_EQ(Format::narrow(-probe), Format::kSign | static_cast<unsigned>(code)) << probe;
    }
  };
  check(emu::e2m3::Format{}, 2, 3, 1);
  check(emu::e3m2::Format{}, 3, 2, 3);
  check(e2m1x2::Format{}, 2, 1, 1);
}

TEST(EmulatedConvert, ScaledConversionsUseTheExponentOfTheScale) {
  // 12 / 4 = 3 (code 5), -1 / 4 = -0.25, a tie that goes to -0 (code 8).
  EXPECT_EQ(emu::cvt_scalef32_pk_fp4_f32(0x11223344u, 12.0f, -1.0f, 4.0f, 2), 0x11853344u);
  EXPECT_EQ(emu::cvt_scalef32_pk_fp4_f32(0, 12.0f, -1.0f, 7.5f, 0), 0x85u);  // as 4
  EXPECT_EQ(emu::cvt_scalef32_f32_fp4(0x00850000u, 4.0f, 2, 0), 12.0f);
  EXPECT_EQ(emu::cvt_scalef32_f32_fp4(0x00F50000u, 0.5f, 2, 1), -3.0f);
  EXPECT_EQ(emu::cvt_scalef32_pk_f8_f32<false>(0xFFFF0000u, 2.0f, 896.0f, 2.0f, false), 0xFFFF7E38u);
  EXPECT_EQ(emu::cvt_scalef32_pk_f8_f32<true>(0, 2.0f, -4.0f, 2.0f, true), 0xC03C0000u);
  EXPECT_EQ(emu::cvt_scalef32_f32_f8<false>(0x7E00u, 2.0f, 1), 896.0f);
}

// narrow<e8m0>: the nearest power of two. 0 stands for 2^-127, 255 for NaN.
TEST(EmulatedConvert, E8m0) {
  for (int code = 0; code < 255; ++code) {
    const float value = widen(e8m0{static_cast<unsigned char>(code)});
    EXPECT_EQ(value, std::ldexp(1.0, code - 127)) << code;
    EXPECT_EQ(narrow<e8m0>(value).bits, code);
  }
  EXPECT_TRUE(std::isnan(widen(e8m0{255})));
  EXPECT_EQ(narrow<e8m0>(std::nanf("")).bits, 255);
}

}  // namespace
}  // namespace tilewright::emulated
