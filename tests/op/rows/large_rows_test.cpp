// SPDX-License-Identifier: MIT
// What only large tensors reach on CPUs: outputs that go past the caches, rows longer than what is kept of one, bands of blocks; and
// scales that are no ordinary numbers among those that are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "op/rows/row_problems.hpp"
#include "ops/op_list.hpp"
#include "tile/common/numeric.hpp"
#include "tilewright/dtype.hpp"
#include "tilewright/quantize.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;

void expect_right(Context& context, const std::string& op, const std::string& text) {
  const auto all = all_operators();
  const auto found = std::ranges::find_if(all, [&](const Operator* one) { return one->name() == op; });
  ASSERT_NE(found, all.end()) << op;
  const VerifyReport report = run_row_problem(context, **found, text);
  EXPECT_TRUE(report.passed) << op << " " << text << ": " << report.failure;
}

// One core has no more of a last cache than 12 MiB: twice that is moved here, so outputs go past it where rows begin on lines.
TEST(LargeRows, OutputsPastTheCachesAreWhole) {
  const std::unique_ptr<Context> context = row_context("off", 1);
  for (const char* sizes : {"m=1700:n=4096", "m=1650:n=4100"}) {
    expect_right(*context, "rms_norm", fmt::format("{}:x=bf16:weight=bf16", sizes));
    expect_right(*context, "layer_norm", fmt::format("{}:x=f16:weight=f16:bias=f16", sizes));
    expect_right(*context, "softmax", fmt::format("{}:x=bf16", sizes));
    expect_right(*context, "act_and_mul", fmt::format("{}:x=bf16:gate=separated:activation=gelu_tanh", sizes));
    expect_right(*context, "act_and_mul_backward", fmt::format("{}:x=bf16:residual=bf16:gate=separated", sizes));
    for (const char* how : {"out=e4m3:quant=row", "out=e4m3:quant=group", "out=e4m3:quant=block",
                            "out=e2m1:quant=group:group=16:scale=e4m3", "out=e2m1:quant=group:scale=e8m0"}) {
      expect_right(*context, "quantize", fmt::format("{}:x=f32:{}", sizes, how));
    }
    expect_right(*context, "dequantize", fmt::format("{}:x=e4m3:out=f32:quant=group", sizes));
  }
}

TEST(LargeRows, CachesAndTurnedHeadsPastTheCachesAreWhole) {
  const std::unique_ptr<Context> context = row_context("off", 1);
  for (const char* heads :
       {"t=1100:k=8:v=8:n=128:x=bf16", "t=1100:k=8:v=8:n=130:x=f16", "t=2200:k=1:v=1:n=512:nv=520:x=f32",
        "t=2200:k=8:v=8:n=128:x=bf16:cache=e4m3:scales=token"}) {
    expect_right(*context, "kv_cache_write", heads);
  }
  for (const char* cache : {"", ":cache=e4m3:scales=tensor"}) {
    expect_right(*context, "qk_norm_rope_cache",
                 fmt::format("t=600:q=40:k=8:n=128:x=bf16:norm=1:weight=bf16:table=f32{}", cache));
  }
  for (const char* order : {"", ":interleaved=1"}) {
    expect_right(
        *context, "rope",
        fmt::format("m=1x1300x40:n=128:x=bf16:residual=bf16:out=bf16:heads=32:dims=128:table=f32:table_rows=1300:"
                    "st=64{}",
                    order));
  }
}

TEST(LargeRows, LongerThanWhatIsKeptOfThem) {
  const std::unique_ptr<Context> context = row_context("off", 2);
  for (const int n : {4096, 4097, 8192, 8193, 12300}) {
    expect_right(*context, "quantize", fmt::format("m=3:n={}:x=bf16:out=i8:quant=row", n));
    expect_right(*context, "layer_norm", fmt::format("m=3:n={}:x=bf16:weight=bf16:bias=bf16", n));
    expect_right(*context, "softmax", fmt::format("m=3:n={}:x=f16:out=f32", n));
    expect_right(*context, "cross_entropy", fmt::format("m=3:n={}:x=bf16:out=bf16", n));
  }
}

// The kernel that is typed at run time divides each element by itself.
TEST(LargeRows, ScalesOfZerosInfinitiesAndNaNStandBesideOthers) {
  constexpr int64_t kRows = 131, kLength = 1100;
  const std::unique_ptr<Context> context = row_context("off", 2);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kRows * kLength);
  for (float& one : x) one = normal(random);
  // A block of zeros, one of tiny numbers, one with an infinity, one with NaN; a row of huge ones.
  for (int64_t row = 0; row < 128; ++row) {
    std::fill_n(x.begin() + row * kLength + 128, 128, 0.0f);
    for (int64_t n = 256; n < 384; ++n) x[row * kLength + n] *= 0x1p-120f;
  }
  x[5 * kLength + 400] = std::numeric_limits<float>::infinity();
  x[9 * kLength + 520] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t n = 0; n < kLength; ++n) x[129 * kLength + n] *= 0x1p120f;

  const auto run = [&](Quantisation quant, int group, DType out, const std::string& recipe) {
    const int64_t down = quant == Quantisation::kBlock ? 2 : kRows;
    const int64_t across = quant == Quantisation::kRow ? 1 : (kLength + group - 1) / group;
    std::vector<unsigned char> result(kRows * kLength + down * across * 4);
    QuantizeCall call;
    call.recipe = recipe, call.quant = quant;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {kRows, kLength});
    call.out = TensorView::contiguous(result.data(), out, {kRows, kLength});
    call.scale = TensorView::contiguous(result.data() + kRows * kLength, DType::kF32, {down, across});
    if (quant == Quantisation::kGroup) call.group = group;
    EXPECT_TRUE(quantize(*context, call).ok());
    return result;
  };
  for (const DType out : {DType::kF8E4M3, DType::kF8E5M2, DType::kI8, DType::kF8E4M3Fnuz}) {
    for (const auto& [quant, group] : {std::pair{Quantisation::kRow, 128}, std::pair{Quantisation::kBlock, 128},
                                       std::pair{Quantisation::kGroup, 128}, std::pair{Quantisation::kGroup, 64},
                                       std::pair{Quantisation::kGroup, 32}, std::pair{Quantisation::kGroup, 16}}) {
      const auto typed = run(quant, group, out, ""),
                 any = run(quant, group, out, "quantize/quantize_generic/x86-64/any/run_time=1");
      EXPECT_EQ(std::memcmp(typed.data(), any.data(), typed.size()), 0)
          << dtype_name(out) << " quant " << static_cast<int>(quant) << " group " << group;
    }
  }
}

}  // namespace
}  // namespace tilewright
