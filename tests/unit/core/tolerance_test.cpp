// SPDX-License-Identifier: MIT
// The tolerance accepts honest f32 sums of every sign pattern, and rejects a lost product.
#include "core/tensor/tolerance.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tile/common/numeric.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Sum {
  double exact = 0, norm = 0;
  float computed = 0;
  double allowed(int k) const {
    return accumulation_bound(DType::kF32, k, norm, exact) + rounding_bound(DType::kF32, std::fabs(exact));
  }
};

Sum sum_products(const std::vector<float>& a, const std::vector<float>& b) {
  Sum sum;
  for (size_t i = 0; i < a.size(); ++i) {
    const double product = static_cast<double>(a[i]) * b[i];
    sum.exact += product;
    sum.norm += product * product;
    sum.computed += a[i] * b[i];
  }
  sum.norm = std::sqrt(sum.norm);
  return sum;
}

TEST(Tolerance, SequentialFloatSumsLieWithinForRandomAndForEqualSigns) {
  std::mt19937 random(3);
  for (const bool same_sign : {false, true}) {
    for (const int k : {1, 2, 7, 64, 1000, 16384}) {
      for (int trial = 0; trial < 100; ++trial) {
        std::uniform_real_distribution<float> values(same_sign ? 0.0f : -1.0f, 1.0f);
        std::vector<float> a(k), b(k);
        for (float& x : a) x = values(random);
        for (float& x : b) x = values(random);
        const Sum sum = sum_products(a, b);
        ASSERT_LE(error_ratio(sum.computed, sum.exact, sum.allowed(k)), 1) << "k " << k;
      }
    }
  }
}

TEST(Tolerance, ALostProductIsRejected) {
  std::mt19937 random(5);
  std::normal_distribution<float> values;
  for (const int k : {2, 64, 4096}) {
    std::vector<float> a(k), b(k);
    for (float& x : a) x = values(random);
    for (float& x : b) x = values(random);
    a.back() = b.back() = 1;
    const Sum sum = sum_products(a, b);
    EXPECT_GT(error_ratio(sum.computed - 1.0f, sum.exact, sum.allowed(k)), 1) << "k " << k;
  }
}

// What an instruction of Hopper does, as far as is known: `count` products and the sum so far, each cut towards zero to a
// multiple of 2^-bits of the largest one's power of two.
double cut_step(double sum, const double* products, int count, int bits) {
  double largest = std::fabs(sum);
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::fabs(products[i]));
  if (largest == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(largest) - bits);
  double total = std::trunc(sum / unit);
  for (int i = 0; i < count; ++i) total += std::trunc(products[i] / unit);
  return total * unit;
}

// 16-bit floats: two bits below f32's, and the result cut to f32.
double half_step(double sum, const double* products) {
  const double exact = cut_step(sum, products, 16, 25);
  const float nearest = static_cast<float>(exact);
  return std::fabs(nearest) > std::fabs(exact) ? std::nextafter(nearest, 0.0f) : nearest;
}

// Of the error against what is allowed.
template <class T>
double worst_half_ratio(int k, bool same_sign, bool lost_product = false) {
  std::mt19937 random(7);
  std::normal_distribution<float> values;
  double worst = 0;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> products(static_cast<size_t>(k));
    double exact = 0, squares = 0, sum = 0;
    for (double& p : products) {
      p = static_cast<double>(widen(narrow<T>(values(random)))) * widen(narrow<T>(values(random)));
      if (same_sign) p = std::fabs(p);
      exact += p, squares += p * p;
    }
    if (lost_product) products.back() -= std::sqrt(squares / k);
    for (int i = 0; i < k; i += 16) sum = half_step(sum, &products[static_cast<size_t>(i)]);
    const double norm = std::sqrt(squares);
    const double allowed =
        accumulation_bound(DType::kF32, k, norm, exact) + tensor_core_bound(DType::kBf16, false, k, norm, exact);
    worst = std::max(worst, std::fabs(sum - exact) / allowed);
  }
  return worst;
}

TEST(Tolerance, SumsThatATensorCoreCutsLieWithin) {
  for (const int k : {16, 1024, 8192, 65536}) {
    EXPECT_LT(worst_half_ratio<bf16>(k, false), 1) << k;
    EXPECT_LT(worst_half_ratio<bf16>(k, true), 1) << k;
    EXPECT_LT(worst_half_ratio<f16>(k, true), 1) << k;
  }
  EXPECT_GT(worst_half_ratio<bf16>(8192, true), 0.3) << "the bound is loose";
}

TEST(Tolerance, ALostProductThatATensorCoreSumsIsRejected) {
  for (const int k : {16, 1024, 8192, 65536}) EXPECT_GT(worst_half_ratio<bf16>(k, false, true), 1) << k;
}

// What is allowed to sums of 8-bit floats that are promoted; or to those that need not be.
double promoted_bound(int64_t k, double norm, double sum) {
  return tensor_core_bound(DType::kF8E4M3, false, k, norm, sum);
}
using Bound = double (*)(int64_t k, double norm, double sum);

// Of the error against what is allowed, with sums that are promoted to f32 every `apart` products.
double worst_narrow_ratio(int k, int apart, bool same_sign, Bound allowed = promoted_bound) {
  std::mt19937 random(11);
  std::normal_distribution<float> values;
  double worst = 0;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> products(static_cast<size_t>(k));
    double exact = 0, squares = 0, promoted = 0;
    for (double& p : products) {
      p = static_cast<double>(widen(narrow<e4m3>(values(random)))) * widen(narrow<e4m3>(values(random)));
      if (same_sign) p = std::fabs(p);
      exact += p, squares += p * p;
    }
    for (int first = 0; first < k; first += apart) {
      double sum = 0;
      for (int i = first; i < first + apart; i += 32) sum = cut_step(sum, &products[static_cast<size_t>(i)], 32, 13);
      promoted += sum;
    }
    worst = std::max(worst, std::fabs(promoted - exact) / allowed(k, std::sqrt(squares), exact));
  }
  return worst;
}

TEST(Tolerance, NarrowSumsOfEightBitFloatsLieWithinWhenTheyArePromotedEvery128) {
  for (const int k : {128, 1024, 16384}) {
    EXPECT_LT(worst_narrow_ratio(k, 128, false), 1) << k;
    EXPECT_LT(worst_narrow_ratio(k, 128, true), 1) << k;
  }
  EXPECT_GT(worst_narrow_ratio(16384, 128, true), 0.25) << "the bound is loose";
  EXPECT_GT(worst_narrow_ratio(16384, 16384, true), 8) << "no need to promote";
}

TEST(Tolerance, SumsOfEightBitFloatsThatAreNeverPromotedLieWithinWhereFastAccumulationIsAllowed) {
  for (const int k : {32, 128, 1024, 4096, 16384, 65536}) {
    EXPECT_LT(worst_narrow_ratio(k, k, false, fast_accumulation_bound), 1) << k;
    EXPECT_LT(worst_narrow_ratio(k, k, true, fast_accumulation_bound), 1) << k;
    EXPECT_LT(worst_narrow_ratio(k, 32, true, fast_accumulation_bound), 1) << k << " promoted";
  }
  EXPECT_GT(worst_narrow_ratio(4096, 4096, true, fast_accumulation_bound), 0.4) << "the bound is loose";
  for (const int k : {1, 64, 128, 4096}) {
    EXPECT_GE(fast_accumulation_bound(k, 1, 1), promoted_bound(k, 1, 1)) << "promoted sums serve too";
  }
  EXPECT_LT(fast_accumulation_bound(512, 128, 128), 128 / std::sqrt(512)) << "a lost product of random signs";
}

TEST(Tolerance, ALostProductOfEightBitFloatsIsRejected) {
  EXPECT_LT(tensor_core_bound(DType::kF8E4M3, false, 65536, 128, 0),
            128 / std::sqrt(65536));  // norm = 128: a product of K is that
}

TEST(Tolerance, ProductsOfFactorsThatAreCutToTf32LieWithin) {
  std::mt19937 random(17);
  std::normal_distribution<float> values;
  const auto cut = [](float x) { return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, x) & ~0x1FFFu); };
  for (const bool same_sign : {false, true}) {
    double worst = 0;
    for (int trial = 0; trial < 50; ++trial) {
      double exact = 0, squares = 0, sum = 0;
      for (int i = 0; i < 4096; ++i) {
        float a = values(random), b = values(random);
        if (same_sign) a = std::fabs(a), b = std::fabs(b);
        exact += double{a} * b, squares += double{a} * b * a * b, sum += double{cut(a)} * cut(b);
      }
      worst = std::max(worst,
                       std::fabs(sum - exact) / tensor_core_bound(DType::kF32, true, 4096, std::sqrt(squares), exact));
    }
    EXPECT_LT(worst, 1);
    EXPECT_GT(worst, 0.05) << "the bound is loose";
  }
  EXPECT_EQ(tensor_core_bound(DType::kF32, false, 4096, 128, 1000), 0) << "IEEE unless it is allowed";
}

TEST(Tolerance, IntegerSumsAreExact) { EXPECT_EQ(accumulation_bound(DType::kI32, 4096, 1e6, 1e6), 0); }

// The bound must hold just above a power of two, where half an ulp is largest against the value.
TEST(Tolerance, RoundingToEveryOutputTypeIsHalfAnUlp) {
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-150, 15);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3Fnuz,
                            DType::kF8E5M2Fnuz}) {
    const double largest = dtype_bits(dtype) > 8 ? 65504 : dtype == DType::kF8E4M3Fnuz ? 240 : 448;
    double closest = 0;
    for (int i = 0; i < 100000; ++i) {
      const double value = i % 2 == 0 ? std::ldexp(mantissa(random), exponent(random)) : 1 + 0x1p-8 * mantissa(random);
      if (value > largest) continue;
      float bytes[1] = {};
      store_element(dtype, bytes, 0, value);
      const double got = load_element(dtype, bytes, 0);
      const double ratio = error_ratio(got, value, rounding_bound(dtype, value));
      ASSERT_LE(ratio, 1) << dtype_name(dtype) << " " << value;
      if (value > 0.5) closest = std::max(closest, ratio);
    }
    EXPECT_GT(closest, 0.9) << dtype_name(dtype) << ": the bound is loose";
  }
  EXPECT_LE(error_ratio(0, 0x1.8p-127, rounding_bound(DType::kBf16, 0x1.8p-127)), 1) << "flushed subnormals are right";
}

TEST(Tolerance, NanInfinityAndOverflowAreRightOnlyWhereTheReferenceHasThem) {
  EXPECT_EQ(error_ratio(kNotANumber, kNotANumber, 0), 0);
  EXPECT_EQ(error_ratio(1, kNotANumber, kInfinite), kInfinite);
  EXPECT_EQ(error_ratio(kNotANumber, 1, 1e9), kInfinite);
  EXPECT_EQ(error_ratio(kInfinite, kInfinite, kNotANumber), 0);
  EXPECT_EQ(error_ratio(-kInfinite, kInfinite, 1), kInfinite);
  EXPECT_EQ(error_ratio(kInfinite, 1, 1e9), kInfinite);
  const double allowed = rounding_bound(DType::kF16, 70000);
  EXPECT_EQ(error_ratio(kInfinite, 70000, allowed, 65504), 0);
  EXPECT_EQ(error_ratio(65504, 70000, allowed, 65504), 0);
  EXPECT_EQ(error_ratio(-kInfinite, 70000, allowed, 65504), kInfinite);
  EXPECT_GT(error_ratio(0, 70000, allowed, 65504), 1);
}

}  // namespace
}  // namespace tilewright
