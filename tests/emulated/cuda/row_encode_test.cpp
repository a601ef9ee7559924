// SPDX-License-Identifier: MIT
// Scales that GPU kernels find, and codes of what is divided by them, as tile/common/quantise.hpp has them: groups of every magnitude, values on
// both sides of where codes change, infinities and NaN. On the host.
#include "emulated/cuda/cuda_words.hpp"
// After the words of CUDA.
#include "quantize/whole_groups_gpu.cuh"
#include "tile/gpu/row_scales.cuh"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tilewright {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

using Values = std::array<float, kRowPiece>;

// Values whose quotients by `scale` are about where codes change: between them, on them, and next to them.
Values at_borders(std::mt19937& random, float scale, float most) {
  constexpr float kBorders[] = {0.25f, 0.5f,       0.75f,      1.25f, 1.75f,  2.5f,   3.5f,
                                5,     0.5f / 512, 1.5f / 512, 17.5f, 126.5f, 127.5f, 440};
  Values x;
  for (float& v : x) {
    v = kBorders[random() % std::size(kBorders)] * scale;
    const int away = static_cast<int>(random() % 7) - 3;
    for (int i = 0; i < std::abs(away); ++i) v = std::nextafter(v, away < 0 ? 0 : kInf);
    v = std::min(v, most);
    if (random() % 2 == 0) v = -v;
  }
  return x;
}
std::vector<Values> groups_of(DType out) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<Values> groups = {{}, {-0.0f, 0.0f}, {1e-45f, -1e-45f, 3e-45f}};
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float most = std::ldexp(1 + static_cast<float>(random() % 128) / 128, exponent);
    Values x = at_borders(random, most / quantised_limit(out), most);
    x[0] = most;
    groups.push_back(x);
    for (float& v : x) v = std::ldexp(normal(random) / 8, exponent);
    groups.push_back(x);
  }
  for (int i = 0; i < 2000; ++i) {
    Values x = at_borders(random, 0x1p-3f, quantised_limit(out) * 0x1p-3f);
    if (random() % 4 != 0) x[1] = quantised_limit(out) * 0x1p-3f;
    groups.push_back(x);
  }
  for (const float special : {kInf, -kInf, kNaN, -kNaN}) {
    groups.push_back({special, 1, -2, 0, -0.0f, 3e38f, -1e-40f, 4});
    groups.push_back({0, special, special, -special, 1, 2, 3, -4});
  }
  return groups;
}
float largest_of(const Values& x) {
  float most = 0;
  for (const float v : x) most = at_least(std::fabs(v), most);
  return most;
}

// The code's bits as the reference has them, without the sign of a NaN.
template <DType kType>
unsigned reference_code(float quotient) {
  if constexpr (kType == DType::kI8) {
    return static_cast<unsigned>(round_clamped(quotient, -128, 127)) & 255;
  } else if constexpr (kType == DType::kF4E2M1) {
    return e2m1x2::Format::narrow(quotient);
  } else {
    return kType == DType::kF8E4M3 ? e4m3::Format::narrow(quotient) : e5m2::Format::narrow(quotient);
  }
}
template <DType kType>
void check_codes(const Values& x, const Divisor& by) {
  constexpr int kBits = dtype_bits(kType);
  Piece p;
  for (int i = 0; i < kRowPiece; ++i) p.v[i] = x[static_cast<size_t>(i)];
  alignas(8) unsigned char codes[kRowPiece] = {};
  encode_quotients<kType, true>(reinterpret_cast<char*>(codes), 0, kRowPiece, p, by);
  for (int i = 0; i < kRowPiece; ++i) {
    const float value = x[static_cast<size_t>(i)], quotient = value / by.scale;
    const unsigned code = codes[i * kBits / 8] >> (i * kBits % 8) & ((1u << kBits) - 1);
    const unsigned expected = reference_code<kType>(quotient);
    if (!is_f8(kType) || quotient == quotient) {
      EXPECT_EQ(code, expected) << value << " over " << by.scale;
    } else {
      EXPECT_EQ(code | 0x80, expected | 0x80) << value << " over " << by.scale;
    }
  }
}

template <DType kType, DType kScale>
void check_groups(float of_tensor = 1, ScaleRounding rounding = ScaleRounding::kDown) {
  float found = -1;
  QuantisedScales scales{&found, &of_tensor, {}, 1, Quantisation::kGroup, kRowPiece, kScale, rounding};
  if (kScale != DType::kF8E4M3) scales.of_tensor = nullptr;
  for (const Values& x : groups_of(kType)) {
    const float most = largest_of(x);
    const Divisor by = FoundScales<Quantisation::kGroup>(scales, kType)(0, most, true);
    float expected = scale_for(most, kType);
    const unsigned code = *reinterpret_cast<const unsigned char*>(&found);
    if (kScale == DType::kE8M0) {
      expected = widen(power_scale_for(most, kType, rounding));
      EXPECT_EQ(code, power_scale_for(most, kType, rounding).bits) << most;
    } else if (kScale == DType::kF8E4M3) {
      const e4m3 multiple = multiple_scale_for(most, kType, of_tensor);
      expected = multiple_divisor(multiple, of_tensor);
      EXPECT_EQ(code, multiple.bits) << most << " of " << of_tensor;
    } else {
      EXPECT_TRUE(found == expected || (found != found && expected != expected)) << found << " for " << most;
    }
    EXPECT_TRUE(by.scale == expected || (by.scale != by.scale && expected != expected)) << by.scale << " for " << most;
    check_codes<kType>(x, by);
  }
}

TEST(EmulatedRowCodes, FoundScalesAndTheirCodesAreTheReferences) {
  check_groups<DType::kF8E4M3, DType::kF32>();
  check_groups<DType::kF8E5M2, DType::kF32>();
  check_groups<DType::kI8, DType::kF32>();
  check_groups<DType::kF4E2M1, DType::kF32>();
}

TEST(EmulatedRowCodes, PowersOfTwoAndTheirCodesAreTheReferences) {
  for (const ScaleRounding rounding :
       {ScaleRounding::kDown, ScaleRounding::kUp, ScaleRounding::kCeil, ScaleRounding::kEven}) {
    check_groups<DType::kF8E4M3, DType::kE8M0>(1, rounding);
    check_groups<DType::kF4E2M1, DType::kE8M0>(1, rounding);
  }
}

TEST(EmulatedRowCodes, MultiplesOfATensorsScaleAndTheirCodesAreTheReferences) {
  for (const float of_tensor : {1.0f, 0.37f, 1e-3f, 1e4f, 1e-30f, 1e30f, 1e-38f, 1e38f, 1e-42f}) {
    check_groups<DType::kF4E2M1, DType::kF8E4M3>(of_tensor);
  }
}

// Groups of 16 elements of 16 bits, which a thread has whole: as they lie, by the same scales.
template <DType kType>
void check_thread_groups(float of_tensor) {
  const MultiplesOfScale multiples(divisor(of_tensor), true);
  const std::vector<Values> groups = groups_of(DType::kF4E2M1);
  size_t usual = 0;
  for (size_t at = 0; at + 1 < groups.size(); at += 2) {
    alignas(16) std::array<unsigned short, 2 * kRowPiece> lie{};
    Values x[2];
    for (size_t i = 0; i < lie.size(); ++i) {
      lie[i] = narrow_16(kType == DType::kBf16, groups[at + i / kRowPiece][i % kRowPiece]);
      x[i / kRowPiece][i % kRowPiece] = widen_16(kType == DType::kBf16, lie[i]);
    }
    GroupWords<kType, 2> words;
    words.load(reinterpret_cast<const char*>(lie.data()));
    const float most = at_least(largest_of(x[0]), largest_of(x[1])), found_most = words.largest_magnitude();
    EXPECT_TRUE(found_most == most || (found_most != found_most && most != most)) << found_most << ", not " << most;
    FoundMultiple found;
    if (!multiples.find(most, found)) continue;
    ++usual;
    const e4m3 multiple = multiple_scale_for(most, DType::kF4E2M1, of_tensor);
    EXPECT_EQ(found.code, multiple.bits) << most << " of " << of_tensor;
    EXPECT_EQ(found.by.scale, multiple_divisor(multiple, of_tensor));
    for (int half = 0; half < 2; ++half) {
      const unsigned codes = codes_of_words<false>(words.pieces[half], doubled(found.by));
      for (int i = 0; i < kRowPiece; ++i) {
        const float value = x[half][static_cast<size_t>(i)];
        EXPECT_EQ(codes >> (4 * i) & 15, reference_code<DType::kF4E2M1>(value / found.by.scale))
            << value << " over " << found.by.scale;
      }
    }
  }
  EXPECT_GT(usual, groups.size() / 20);
}
TEST(EmulatedRowCodes, GroupsThatAThreadHasAreTheReferences) {
  for (const float of_tensor : {1.0f, 0.37f, 1e-3f, 1e4f, 0x1p-20f, 7e19f}) {
    check_thread_groups<DType::kBf16>(of_tensor);
    check_thread_groups<DType::kF16>(of_tensor);
  }
  FoundMultiple found;
  for (const float of_tensor : {1e-30f, 1e30f, 0.0f, kInf, kNaN})
    EXPECT_FALSE(MultiplesOfScale(divisor(of_tensor), true).find(1, found)) << of_tensor;
  for (const float most : {1e38f, kInf, kNaN})
    EXPECT_FALSE(MultiplesOfScale(divisor(1), true).find(most, found)) << most;
  EXPECT_FALSE(MultiplesOfScale(divisor(1), false).find(1, found));
}

// Where nothing but rounding goes beyond the type's range, as in rows.
TEST(EmulatedRowCodes, IntegersThatNeedNoLimitAreTheReferences) {
  std::mt19937 random(3);
  for (int i = 0; i < 4000; ++i) {
    const float most =
        std::ldexp(1 + static_cast<float>(random() % (1 << 23)) * 0x1p-23f, static_cast<int>(random() % 100) - 50);
    const Divisor by = divisor(scale_for(most, DType::kI8));
    for (const float x : {most, -most, std::nextafter(most, 0.0f)}) {
      EXPECT_EQ(integer_code(corrected_quotient(x, by)) & 255, reference_code<DType::kI8>(x / by.scale)) << x;
    }
  }
}

}  // namespace
}  // namespace tilewright
