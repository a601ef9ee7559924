// SPDX-License-Identifier: MIT
// quantize with rotated blocks and codes rounded by chance: the reference's bits, the matrix itself, and statistics.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "op/rows/row_problems.hpp"
#include "tilewright/dtype.hpp"
#include "tilewright/quantize.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;

constexpr const char* kOptionQuantizers[] = {
    "out=e4m3:quant=row",          "out=e5m2:quant=tensor",
    "out=i8:quant=dynamic",        "out=e4m3:quant=group",
    "out=e4m3:quant=block",        "out=e2m1:quant=block:scale=e8m0:rounding=up",
    "out=i8:quant=group:group=16", "out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
    "out=i8:quant=group:group=64", "out=e2m1:quant=group:scale=e8m0:rounding=even",
    "out=e5m2fnuz:quant=row",      "out=e4m3fnuz:quant=group:scale=e8m0:rounding=up"};

TEST(QuantizeOptions, RotatedBlocksAndChanceHaveTheReferencesCodesWithEveryQuantiser) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  for (const char* quantizer : kOptionQuantizers) {
    for (const char* turned : {"hadamard=16", "hadamard=32", "hadamard=64", "hadamard=128", "state_words=2",
                               "hadamard=128:state_words=2", "smooth=f32:hadamard=64:state_words=2"}) {
      for (const int n : {128, 384, 4096}) {
        const std::string text = fmt::format("m=3x43:n={}:x=bf16:{}:{}", n, quantizer, turned);
        const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
  for (const int n : {1, 7, 17, 127, 1000}) {
    for (const char* out :
         {"f32:out=e5m2:quant=row", "f16:out=i8:quant=tensor", "bf16:out=e2m1:quant=group:group=16"}) {
      const std::string text = fmt::format("m=5:n={}:x={}:state_words=2", n, out);
      const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
}

// Against the matrix itself, of which element (i, j) is -1 where i and j share an odd number of bits.
TEST(QuantizeOptions, ARotatedBlockIsTheProductWithAHadamardMatrix) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const int64_t block : {16, 32, 64, 128}) {
    std::vector<float> x(256);
    std::vector<signed char> codes(x.size());
    float scale = 0.0625f;
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37 + 11) % 29) / 16 - 0.875f;
    QuantizeCall call;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {1, 256});
    call.out = TensorView::contiguous(codes.data(), DType::kI8, {1, 256});
    call.scale = TensorView::contiguous(&scale, DType::kF32, {1});
    call.quant = Quantisation::kTensor, call.hadamard = block;
    ASSERT_TRUE(quantize(*context, call).ok());
    for (int64_t i = 0; i < 256; ++i) {
      double want = 0;
      for (int64_t j = 0; j < block; ++j) {
        const bool minus = std::popcount(static_cast<uint64_t>(i % block & j)) % 2 != 0;
        const double one = x[static_cast<size_t>(i / block * block + j)];
        want += minus ? -one : one;
      }
      want /= std::sqrt(static_cast<double>(block)) * scale;
      EXPECT_LE(std::fabs(codes[static_cast<size_t>(i)] - std::clamp(want, -128.0, 127.0)), 0.5001)
          << block << " " << i;
    }
  }
}

// 2^20 draws of one quotient a type: their mean is the quotient, within six standard deviations of it, and nothing but its two neighbours
// comes out.
TEST(QuantizeOptions, CodesByChanceHaveTheQuotientAsTheirMean) {
  const std::unique_ptr<Context> context = row_context("off", 2);
  constexpr int64_t kRows = 1024, kColumns = 1024;
  std::vector<float> x(kRows * kColumns);
  std::vector<unsigned char> codes(x.size());
  int32_t state[4] = {20251125, 7, 3, 0};  // words of the seed and the offset
  float scale = 1;
  const struct {
    DType out;
    float value, low, high;
  } cases[] = {{DType::kI8, 2.3f, 2, 3},
               {DType::kI8, -0.125f, -1, 0},
               {DType::kF8E4M3, 1.30f, 1.25f, 1.375f},
               {DType::kF8E4M3, -0.0009765625f, -0x1p-9f, 0},  // below the smallest normal value
               {DType::kF8E5M2, 1000, 896, 1024},
               {DType::kF8E4M3Fnuz, 0.001953125f * 0.7f, 0x1p-10f, 0x1p-9f},
               {DType::kF4E2M1, 0.2f, 0, 0.5f},
               {DType::kF4E2M1, -5.5f, -6, -4}};
  for (const auto& c : cases) {
    std::fill(x.begin(), x.end(), c.value);
    QuantizeCall call;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {kRows, kColumns});
    call.out = TensorView::contiguous(codes.data(), c.out, {kRows, kColumns});
    call.scale = TensorView::contiguous(&scale, DType::kF32, {1});
    call.random_state = TensorView::contiguous(state, DType::kI32, {2, 2});
    call.quant = Quantisation::kTensor;
    ASSERT_TRUE(quantize(*context, call).ok());
    int64_t high = 0;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      const double code = load_element(c.out, codes.data(), i);
      ASSERT_TRUE(code == c.low || code == c.high) << code << " of " << c.value;
      high += code == c.high;
    }
    const double share = (static_cast<double>(c.value) - c.low) / (static_cast<double>(c.high) - c.low),
                 n = kRows * kColumns;
    EXPECT_NEAR(static_cast<double>(high) / n, share, 6 * std::sqrt(share * (1 - share) / n) + 0x1p-16) << c.value;
  }
  // Another offset draws anew, the same one alike.
  QuantizeCall call;
  std::fill(x.begin(), x.end(), 0.5f);
  call.x = TensorView::contiguous(x.data(), DType::kF32, {kRows, kColumns});
  call.out = TensorView::contiguous(codes.data(), DType::kI8, {kRows, kColumns});
  call.scale = TensorView::contiguous(&scale, DType::kF32, {1});
  call.random_state = TensorView::contiguous(state, DType::kI32, {2, 2});
  call.quant = Quantisation::kTensor;
  ASSERT_TRUE(quantize(*context, call).ok());
  const std::vector<unsigned char> first = codes;
  ASSERT_TRUE(quantize(*context, call).ok());
  EXPECT_EQ(codes, first);
  ++state[2];
  ASSERT_TRUE(quantize(*context, call).ok());
  int64_t alike = 0;
  for (size_t i = 0; i < codes.size(); ++i) alike += codes[i] == first[i];
  EXPECT_NEAR(static_cast<double>(alike) / static_cast<double>(codes.size()), 0.5, 6 * 0.5 / 1024);
}

}  // namespace
}  // namespace tilewright
