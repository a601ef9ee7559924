// SPDX-License-Identifier: MIT
// The small number formats against values and roundings worked out in double, by formula and by search.
#include "tile/common/numeric.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// What the test knows of a format, from its specification.
struct Spec {
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
  bool infinities;  // exponent all ones is infinity and NaN
  bool saturates;
  int nan;  // the only NaN's magnitude code, or a sign-only code for FNUZ; -1 = by infinities or none
  bool fnuz;
  double largest;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

const Spec kSpecs[] = {
    {DType::kF16, 5, 10, 15, true, false, -1, false, 65504},
    {DType::kBf16, 8, 7, 127, true, false, -1, false, 0x1.FEp127},
    {DType::kF8E4M3, 4, 3, 7, false, true, 0x7F, false, 448},
    {DType::kF8E5M2, 5, 2, 15, true, true, -1, false, 57344},
    {DType::kF8E4M3Fnuz, 4, 3, 8, false, true, -1, true, 240},
    {DType::kF8E5M2Fnuz, 5, 2, 16, false, true, -1, true, 57344},
    {DType::kF4E2M1, 2, 1, 1, false, true, -1, false, 6},
};

// The value of a code: (-1)^s 2^(e - bias) (1 + m / 2^M), or 2^(1 - bias) m / 2^M when e = 0.
double value_of(const Spec& f, unsigned code) {
  const unsigned sign = code >> (f.bits() - 1) & 1;
  const int e = static_cast<int>(code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  const int m = static_cast<int>(code & ((1u << f.mantissa_bits) - 1));
  const unsigned magnitude = code & ((1u << (f.bits() - 1)) - 1);
  if (f.fnuz && sign == 1 && magnitude == 0) return kNaN;
  if (f.nan >= 0 && magnitude == static_cast<unsigned>(f.nan)) return kNaN;
  double value;
  if (f.infinities && e == (1 << f.exponent_bits) - 1) {
    value = m == 0 ? kInf : kNaN;
  } else if (e == 0) {
    value = std::ldexp(m, 1 - f.bias - f.mantissa_bits);
  } else {
    value = std::ldexp((1 << f.mantissa_bits) + m, e - f.bias - f.mantissa_bits);
  }
  return sign == 1 ? -value : value;
}

// Finite values of the positive codes, in order: the index is the code.
std::vector<double> finite_values(const Spec& f) {
  std::vector<double> values;
  for (unsigned code = 0; code < 1u << (f.bits() - 1); ++code) {
    const double value = value_of(f, code);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// Nearest code by binary search, ties to the even code; beyond the largest as the format says.
unsigned expected_code(const Spec& f, const std::vector<double>& values, double x) {
  const unsigned sign = std::signbit(x) ? 1u << (f.bits() - 1) : 0;
  const double magnitude = std::fabs(x);
  const size_t last = values.size() - 1;
  size_t code;
  if (magnitude >= values[last]) {
    const double midpoint = values[last] + (values[last] - values[last - 1]) / 2;  // toward the next code, if any
    code = !f.saturates && magnitude >= midpoint ? last + 1 : last;                // the largest is odd: its tie is up
  } else {
    const size_t above =
        static_cast<size_t>(std::upper_bound(values.begin(), values.end(), magnitude) - values.begin());
    const double down = magnitude - values[above - 1];
    const double up = values[above] - magnitude;
    code = down < up || (down == up && (above - 1) % 2 == 0) ? above - 1 : above;
  }
  if (f.fnuz && code == 0) return 0;
  return sign | static_cast<unsigned>(code);
}

// The library's conversions, by code.
template <class T>
unsigned narrow_code(float x) {
  return narrow<T>(x).bits;
}
float widen_code(DType dtype, unsigned code) {
  switch (dtype) {
    case DType::kF16: return widen(f16{static_cast<unsigned short>(code)});
    case DType::kBf16: return widen(bf16{static_cast<unsigned short>(code)});
    case DType::kF8E4M3: return widen(e4m3{static_cast<unsigned char>(code)});
    case DType::kF8E5M2: return widen(e5m2{static_cast<unsigned char>(code)});
    case DType::kF8E4M3Fnuz: return widen(e4m3fnuz{static_cast<unsigned char>(code)});
    case DType::kF8E5M2Fnuz: return widen(e5m2fnuz{static_cast<unsigned char>(code)});
    default: return widen(e2m1x2{static_cast<unsigned char>(code)}, 0);
  }
}
using NarrowFunction = unsigned (*)(float);
NarrowFunction narrow_function(DType dtype) {
  switch (dtype) {
    case DType::kF16: return narrow_code<f16>;
    case DType::kBf16: return narrow_code<bf16>;
    case DType::kF8E4M3: return narrow_code<e4m3>;
    case DType::kF8E5M2: return narrow_code<e5m2>;
    case DType::kF8E4M3Fnuz: return narrow_code<e4m3fnuz>;
    case DType::kF8E5M2Fnuz: return narrow_code<e5m2fnuz>;
    default: return [](float x) -> unsigned { return narrow_pair<e2m1x2>(x, 0).bits; };
  }
}
unsigned store_code(DType dtype, double x) {
  unsigned char bytes[4] = {};
  store_element(dtype, bytes, 0, x);
  return dtype_bits(dtype) == 16 ? bytes[0] | bytes[1] << 8 : bytes[0];
}

class FloatFormatTest : public testing::TestWithParam<Spec> {};

TEST_P(FloatFormatTest, EveryCodeWidensToItsValue) {
  const Spec& f = GetParam();
  for (unsigned code = 0; code < 1u << f.bits(); ++code) {
    const double expected = value_of(f, code);
    const float actual = widen_code(f.dtype, code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << "code " << code;
    } else {
      ASSERT_EQ(static_cast<double>(actual), expected) << "code " << code;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << "code " << code;
    }
  }
  EXPECT_EQ(finite_values(f).back(), f.largest);
}

TEST_P(FloatFormatTest, EveryCodeSurvivesWideningAndNarrowing) {
  const Spec& f = GetParam();
  const unsigned mantissa = (1u << f.mantissa_bits) - 1;
  const NarrowFunction narrow_to = narrow_function(f.dtype);
  for (unsigned code = 0; code < 1u << f.bits(); ++code) {
    unsigned expected = code;
    const double value = value_of(f, code);
    // A signalling NaN becomes quiet and keeps the rest; e5m2 saturates its infinities.
    if (std::isnan(value) && f.infinities) expected |= (mantissa + 1) / 2;
    if (std::isinf(value) && f.saturates) expected = code - 1;
    ASSERT_EQ(narrow_to(widen_code(f.dtype, code)), expected) << "code " << code;
    ASSERT_EQ(store_code(f.dtype, widen_code(f.dtype, code)), expected) << "code " << code;
  }
}

TEST_P(FloatFormatTest, MidpointsAndTheirNeighboursRoundToNearestEven) {
  const Spec& f = GetParam();
  const std::vector<double> values = finite_values(f);
  const NarrowFunction narrow_to = narrow_function(f.dtype);
  const float inf = std::numeric_limits<float>::infinity();
  for (size_t code = 0; code < values.size(); ++code) {
    const double next = code + 1 < values.size() ? values[code + 1] : 2 * values[code] - values[code - 1];
    const double midpoint = values[code] + (next - values[code]) / 2;
    for (const double exact : {values[code], midpoint}) {
      const float center = static_cast<float>(exact);
      ASSERT_EQ(static_cast<double>(center), exact);
      for (const float x : {center, std::nextafter(center, inf), std::nextafter(center, -inf)}) {
        ASSERT_EQ(narrow_to(x), expected_code(f, values, x)) << x;
        ASSERT_EQ(narrow_to(-x), expected_code(f, values, -x)) << -x;
      }
      // One step of a double beside the midpoint: rounding to float first would land on the midpoint.
      for (const double x : {exact, std::nextafter(exact, kInf), std::nextafter(exact, -kInf)}) {
        ASSERT_EQ(store_code(f.dtype, x), expected_code(f, values, x)) << x;
        ASSERT_EQ(store_code(f.dtype, -x), expected_code(f, values, -x)) << -x;
      }
    }
  }
}

TEST_P(FloatFormatTest, RandomFloatsRoundAsTheSearchDoes) {
  const Spec& f = GetParam();
  const std::vector<double> values = finite_values(f);
  const NarrowFunction narrow_to = narrow_function(f.dtype);
  std::mt19937 random(7);
  // Half over all bit patterns, half within the format's own range.
  std::uniform_int_distribution<int> exponent(
      127 - f.bias - f.mantissa_bits - 2 > 0 ? 127 - f.bias - f.mantissa_bits - 2 : 0,
      std::min(254, 127 + std::ilogb(f.largest) + 1));
  for (int i = 0; i < 1 << 22; ++i) {
    uint32_t bits = random();
    if (i % 2 == 1) bits = (bits & 0x807FFFFFu) | static_cast<uint32_t>(exponent(random)) << 23;
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(narrow_to(x), expected_code(f, values, x)) << x;
  }
}

TEST_P(FloatFormatTest, NanInfinityAndOverflowBecomeWhatTheFormatSays) {
  const Spec& f = GetParam();
  const NarrowFunction narrow_to = narrow_function(f.dtype);
  const float inf = std::numeric_limits<float>::infinity();
  const double expected_overflow = f.saturates ? f.largest : kInf;
  for (const float big : {inf, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(widen_code(f.dtype, narrow_to(big)), expected_overflow);
    EXPECT_EQ(widen_code(f.dtype, narrow_to(-big)), -expected_overflow);
    EXPECT_EQ(widen_code(f.dtype, store_code(f.dtype, 1e300)), expected_overflow);
  }
  const float nan = widen_code(f.dtype, narrow_to(std::numeric_limits<float>::quiet_NaN()));
  if (f.dtype == DType::kF4E2M1) {
    EXPECT_EQ(nan, 6.0f);
  } else {
    EXPECT_TRUE(std::isnan(nan));
    // A payload only in the bits that are cut off must not turn the NaN into an infinity.
    EXPECT_TRUE(std::isnan(widen_code(f.dtype, narrow_to(std::bit_cast<float>(0x7F800001u)))));
  }
  EXPECT_EQ(narrow_to(-0.0f), f.fnuz ? 0u : 1u << (f.bits() - 1));
  EXPECT_EQ(narrow_to(-1e-44f), f.fnuz ? 0u : 1u << (f.bits() - 1));
}

INSTANTIATE_TEST_SUITE_P(Numeric, FloatFormatTest, testing::ValuesIn(kSpecs),
                         [](const auto& spec) { return std::string(dtype_name(spec.param.dtype)); });

TEST(NumericScale, EveryE8M0CodeIsItsPowerOfTwoAndSurvives) {
  for (int code = 0; code < 255; ++code) {
    const float value = widen(e8m0{static_cast<unsigned char>(code)});
    ASSERT_EQ(value, std::ldexp(1.0, code - 127));
    ASSERT_EQ(narrow<e8m0>(value).bits, code);
  }
  EXPECT_TRUE(std::isnan(widen(e8m0{255})));
}

TEST(NumericScale, E8M0RoundsToTheNearestPowerAndTiesGoUp) {
  for (int e = -127; e < 127; ++e) {
    const float midpoint = static_cast<float>(std::ldexp(1.5, e));
    ASSERT_EQ(narrow<e8m0>(std::nextafter(midpoint, 0.0f)).bits, e + 127);
    ASSERT_EQ(narrow<e8m0>(midpoint).bits, e + 128);
    unsigned char code = 0;
    store_element(DType::kE8M0, &code, 0, std::nextafter(static_cast<double>(midpoint), 0.0));
    ASSERT_EQ(code, e + 127);
  }
  EXPECT_EQ(narrow<e8m0>(0.0f).bits, 0);
  EXPECT_EQ(narrow<e8m0>(-0.0f).bits, 0);
  EXPECT_EQ(narrow<e8m0>(1e-45f).bits, 0);
  EXPECT_EQ(narrow<e8m0>(std::numeric_limits<float>::infinity()).bits, 254);
  EXPECT_EQ(narrow<e8m0>(-1.0f).bits, 255);
  EXPECT_EQ(narrow<e8m0>(std::numeric_limits<float>::quiet_NaN()).bits, 255);
}

TEST(NumericInteger, FourBitPairsWidenBothNibblesAndSurvive) {
  for (int code = 0; code < 256; ++code) {
    const i4x2 pair{static_cast<unsigned char>(code)};
    const int low = code % 16 < 8 ? code % 16 : code % 16 - 16;
    const int high = code / 16 < 8 ? code / 16 : code / 16 - 16;
    ASSERT_EQ(widen(pair, 0), low);
    ASSERT_EQ(widen(pair, 1), high);
    ASSERT_EQ(narrow_pair<i4x2>(widen(pair, 0), widen(pair, 1)).bits, code);
    const u4x2 whole{static_cast<unsigned char>(code)};
    ASSERT_EQ(widen(whole, 0), code % 16);
    ASSERT_EQ(widen(whole, 1), code / 16);
    ASSERT_EQ(narrow_pair<u4x2>(widen(whole, 0), widen(whole, 1)).bits, code);
    const e2m1x2 floats{static_cast<unsigned char>(code)};
    ASSERT_EQ(widen(floats, 1), value_of(kSpecs[6], static_cast<unsigned>(code / 16)));
    ASSERT_EQ(narrow_pair<e2m1x2>(widen(floats, 0), widen(floats, 1)).bits, code);
  }
}

TEST(NumericInteger, RoundsHalvesToEvenAndSaturates) {
  // Every quarter between -200 and 200.
  for (int quarter = -800; quarter <= 800; ++quarter) {
    const double x = quarter / 4.0;
    const double nearest = std::nearbyint(x);
    ASSERT_EQ(narrow<signed char>(static_cast<float>(x)), std::clamp(nearest, -128.0, 127.0)) << x;
    int8_t stored = 0;
    store_element(DType::kI8, &stored, 0, x);
    ASSERT_EQ(stored, std::clamp(nearest, -128.0, 127.0)) << x;
    ASSERT_EQ(widen(narrow_pair<i4x2>(0, static_cast<float>(x)), 1), std::clamp(nearest, -8.0, 7.0)) << x;
    ASSERT_EQ(widen(narrow_pair<u4x2>(0, static_cast<float>(x)), 1), std::clamp(nearest, 0.0, 15.0)) << x;
  }
  EXPECT_EQ(narrow<signed char>(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(narrow<signed char>(-std::numeric_limits<float>::infinity()), -128);
  int32_t stored = 1;
  store_element(DType::kI32, &stored, 0, kNaN);
  EXPECT_EQ(stored, 0);
  store_element(DType::kI32, &stored, 0, 2147483646.5);
  EXPECT_EQ(stored, 2147483646);
  store_element(DType::kI32, &stored, 0, 1e18);
  EXPECT_EQ(stored, INT32_MAX);
  store_element(DType::kI32, &stored, 0, -1e18);
  EXPECT_EQ(stored, INT32_MIN);
}

TEST(NumericElement, StoringOneNibbleLeavesItsNeighbour) {
  for (const DType dtype : {DType::kI4, DType::kU4, DType::kF4E2M1}) {
    unsigned char bytes[2] = {0xFF, 0xFF};
    store_element(dtype, bytes, 2, 1.0);
    EXPECT_EQ(load_element(dtype, bytes, 2), 1.0);
    EXPECT_EQ(bytes[0], 0xFF);
    EXPECT_EQ(bytes[1] >> 4, 0xF);
    store_element(dtype, bytes, 1, 2.0);
    EXPECT_EQ(load_element(dtype, bytes, 1), 2.0);
    EXPECT_EQ(bytes[0] & 15, 15);
  }
  EXPECT_EQ(dtype_bytes(DType::kI4, 3), 2);
  EXPECT_EQ(dtype_bytes(DType::kF32, 3), 12);
}

TEST(NumericElement, EveryTypeStoresAtItsIndexWithoutAlignment) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    unsigned char bytes[40] = {};
    for (int64_t index = 0; index < 8; ++index) store_element(dtype, bytes + 1, index, index % 2 == 0 ? 2.0 : 4.0);
    for (int64_t index = 0; index < 8; ++index) {
      EXPECT_EQ(load_element(dtype, bytes + 1, index), index % 2 == 0 ? 2.0 : 4.0) << dtype_name(dtype) << index;
    }
    EXPECT_EQ(bytes[0], 0);
  }
}

TEST(NumericElement, DtypeNamesParseBackAndOthersListWhatIsKnown) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto parsed = parse_dtype(kDTypeNames[i]);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, static_cast<DType>(i));
  }
  for (const char* name : {"", "none", "fp16", "BF16", "bf16 "}) {
    const auto parsed = parse_dtype(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(
        parsed.status().message().find("f32, f16, bf16, e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, i4, e2m1, e8m0, i32, u4"),
        std::string::npos);
  }
}

// Kernels convert in constant expressions too.
static_assert(widen(bf16{0x3F80}) == 1.0f && narrow<bf16>(1.0f).bits == 0x3F80);
static_assert(widen(f16{1}) == 0x1p-24f && narrow<f16>(65520.0f).bits == 0x7C00);
static_assert(narrow<e4m3>(1000.0f).bits == 0x7E && narrow<signed char>(2.5f) == 2);

}  // namespace
}  // namespace tilewright
