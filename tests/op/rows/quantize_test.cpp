// SPDX-License-Identifier: MIT
// quantize through dispatch: every type, quantiser, size and stride has the reference's codes and scales, to the bit.
#include "tilewright/quantize.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "op/rows/random_row_problems.hpp"
#include "tile/common/numeric.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright {
namespace {

using test::row_context, test::run_row_problem;
using testing::HasSubstr;

constexpr const char* kQuantizers[] = {"out=e4m3:quant=row",
                                       "out=i8:quant=row",
                                       "out=e5m2:quant=tensor",
                                       "out=i8:quant=tensor",
                                       "out=e4m3:quant=dynamic",
                                       "out=i8:quant=dynamic",
                                       "out=e2m1:quant=dynamic",
                                       "out=e4m3:quant=group",
                                       "out=e4m3:quant=block",
                                       "out=e2m1:quant=block:scale=e8m0:rounding=up",
                                       "out=i8:quant=group:group=16",
                                       "out=e2m1:quant=group:scale=e4m3",
                                       "out=e2m1:quant=group:scale=e4m3:tensor_scale=given",
                                       "out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
                                       "out=i8:quant=group:group=64",
                                       "out=e2m1:quant=group:scale=e8m0:rounding=even",
                                       "out=e4m3fnuz:quant=group:scale=e8m0:rounding=up"};

TEST(Quantize, EveryLengthAndQuantiserHasTheReferencesCodes) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  for (const char* x : {"f32", "f16", "bf16"}) {
    for (const char* quantizer : kQuantizers) {
      for (const int n : {1, 2, 15, 17, 64, 127, 200, 4096}) {
        const std::string text = fmt::format("m=5:n={}:x={}:{}", n, x, quantizer);
        const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
        EXPECT_TRUE(report.passed) << text << ": " << report.failure;
      }
    }
  }
}

TEST(Quantize, RowsOfAMillionElementsHaveTheReferencesCodes) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* rest : {"quant=dynamic", "quant=row", "quant=group", "quant=block"}) {
    const std::string text = fmt::format("m=2:n=1000003:x=bf16:out=e4m3:{}", rest);
    const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

TEST(Quantize, EmptyTensorsHaveTheScaleOneAndNoCodes) {
  const std::unique_ptr<Context> context = row_context("off");
  for (const char* text :
       {"m=0:n=16:x=f32:out=e4m3:quant=dynamic", "m=3:n=0:x=f32:out=i8:quant=dynamic",
        "m=3:n=0:x=bf16:out=i8:quant=row", "m=0:n=5:x=bf16:out=e4m3:quant=group", "m=0:n=5:x=bf16:out=e4m3:quant=block",
        "m=3:n=0:x=f32:out=i8:quant=block", "m=0:n=16:x=f32:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
        "m=3:n=0:x=f32:out=e2m1:quant=group:scale=e4m3:tensor_scale=found"}) {
    const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
  float scale = 7, data = 0;
  unsigned char code = 0;
  QuantizeCall call;
  call.x = TensorView::contiguous(&data, DType::kF32, {0, 8});
  call.out = TensorView::contiguous(&code, DType::kF8E4M3, {0, 8});
  call.scale = TensorView::contiguous(&scale, DType::kF32, {1});
  call.quant = Quantisation::kDynamic;
  const Status status = quantize(*context, call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(scale, 1);
}

std::string random_quantize_text(test::Random& random) {
  const int64_t m0 = test::pick(random, 1, 5), m1 = test::chance(random, 0.05) ? 0 : test::pick(random, 1, 9);
  int64_t n = test::chance(random, 0.1) ? 1 : test::pick(random, 2, test::chance(random, 0.1) ? 9000 : 400);
  if (test::chance(random, 0.2)) n = (n + 15) / 16 * 16;
  std::string text = fmt::format("m={}x{}:n={}:x={}", m0, m1, n, test::pick_one(random, {"f32", "f16", "bf16"}));
  if (test::chance(random, 0.3)) text += ":smooth=" + test::pick_one(random, {"f32", "f16", "bf16"});
  const std::string out = test::pick_one(random, {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "i8", "e2m1"});
  const std::string quant = test::pick_one(random, {"tensor", "row", "group", "group", "dynamic", "block"});
  text += ":out=" + out + ":quant=" + quant;
  if (quant == "group") {
    text += ":group=" + test::pick_one(random, {"16", "32", "64", "128"});
    if (out == "e2m1" && test::chance(random, 0.5)) {
      text += ":scale=e4m3:tensor_scale=" + test::pick_one(random, {"none", "given", "found"});
    } else if (out != "i8" && test::chance(random, 0.5)) {
      text += ":scale=e8m0";
      text += ":rounding=" + test::pick_one(random, {"down", "up", "ceil", "even"});
    }
    // Scales along M, as GEMM takes them too.
    if (m1 > 0 && test::chance(random, 0.4)) text += fmt::format(":ss=0.{}.1.{}", m1, m0 * m1);
  }
  if (n % 16 == 0 && test::chance(random, 0.6))
    text += ":hadamard=" + std::string(n % 128 == 0 ? "128" : n % 64 == 0 ? "64" : "16");
  if (test::chance(random, 0.3)) text += ":state_words=2";
  if (quant == "block" && out != "i8" && test::chance(random, 0.3)) text += ":scale=e8m0";
  const int64_t step = n + n % 2 + 2 * test::pick(random, 0, 4);
  if (test::chance(random, 0.4)) text += fmt::format(":sx=0.{}.{}", m1 * step, step);
  if (test::chance(random, 0.4)) text += fmt::format(":so=0.{}.{}", step, m0 * step);
  return text;
}

TEST(QuantizeRandomProblems, EachHasTheReferencesCodesInEveryKernelThatIsBuilt) {
  test::check_random_row_problems(quantize_operator(), 200, 77, random_quantize_text, /*may_refuse=*/true);
}

TEST(Quantize, BlocksOfRowsAndColumnsShareAScale) {
  const std::unique_ptr<Context> context = row_context("off", 3);
  for (const char* sizes :
       {"m=1:n=1", "m=128:n=128", "m=129:n=257", "m=300:n=200", "m=3x130:n=131", "m=2x3x257:n=40", "m=7x1:n=300"}) {
    for (const char* x : {"x=f32:out=i8", "x=bf16:out=e4m3:smooth=f32", "x=bf16:out=e4m3:scale=e8m0:rounding=up",
                          "x=f16:out=e2m1", "x=f32:out=e5m2fnuz"}) {
      const std::string text = fmt::format("{}:{}:quant=block", sizes, x);
      const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
      EXPECT_TRUE(report.passed) << text << ": " << report.failure;
    }
  }
  // As the weight [N, K] of a GEMM has them: [N/128, K/128], or along N.
  for (const char* strides : {":ss=0.0.1.3", ":sx=0.0.-400", ":so=0.0.512"}) {
    const std::string text = fmt::format("m=300:n=386:x=bf16:out=e4m3:quant=block{}", strides);
    const VerifyReport report = run_row_problem(*context, quantize_operator(), text);
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }
}

// Outer dimensions that would become one keep the rows of blocks apart.
TEST(Quantize, BlocksOfSeveralWeightsEndWithEach) {
  const std::unique_ptr<Context> context = row_context("off");
  constexpr int64_t kWeights = 2, kRows = 130, kColumns = 4;
  std::vector<float> x(kWeights * kRows * kColumns, 1.0f), scales(kWeights * 2);
  std::vector<signed char> codes(x.size());
  x[130 * kColumns - 1] = 254, x[131 * kColumns] = -1270;
  QuantizeCall call;
  call.x = TensorView::contiguous(x.data(), DType::kF32, {kWeights, kRows, kColumns});
  call.out = TensorView::contiguous(codes.data(), DType::kI8, {kWeights, kRows, kColumns});
  call.scale = TensorView::contiguous(scales.data(), DType::kF32, {kWeights, 2, 1});
  call.quant = Quantisation::kBlock;
  const Status status = quantize(*context, call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(scales, testing::ElementsAre(1.0f / 127, 2.0f, 10.0f, 1.0f / 127));
  call.scale = TensorView::contiguous(scales.data(), DType::kF32, {4, 1});
  EXPECT_THAT(quantize(*context, call).message(), HasSubstr("expected [2, 2, 1]"));
}

// As NVIDIA's recipe has it, number by number: a scale of the tensor, those of 16 neighbours as its multiples, codes.
TEST(Quantize, NVFP4HasTwoLevelsOfScales) {
  for (const char* recipe : {"", "quantize/quantize_generic/x86-64/any/run_time=1"}) {
    const std::unique_ptr<Context> context = row_context("off", 2);
    constexpr int64_t kLength = 64;
    std::vector<float> x(2 * kLength, 0.0f);
    std::vector<unsigned char> codes(x.size() / 2), scales(x.size() / 16);
    float of_tensor = 0;
    for (int i = 0; i < 16; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i - 8) * 672;  // -5376 to 4704
    x[16] = 3, x[17] = -1.5f;  // 3 / 6 = 0.25 of the tensor's scale
    x[32] = 1e-3f;             // far below the smallest multiple
    QuantizeCall call;
    call.recipe = recipe;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {2, kLength});
    call.out = TensorView::contiguous(codes.data(), DType::kF4E2M1, {2, kLength});
    call.scale = TensorView::contiguous(scales.data(), DType::kF8E4M3, {2, kLength / 16});
    call.tensor_scale = TensorView::contiguous(&of_tensor, DType::kF32, {});
    call.quant = Quantisation::kGroup, call.find_tensor_scale = true;
    const Status status = quantize(*context, call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(of_tensor, 2);
    const auto scale = [&](int64_t i) { return load_element(DType::kF8E4M3, scales.data(), i); };
    const auto code = [&](int64_t i) { return load_element(DType::kF4E2M1, codes.data(), i); };
    EXPECT_EQ(scale(0), 448);
    EXPECT_EQ(code(0), -6);
    EXPECT_EQ(code(15), 6);  // 5.25, above the middle of 4 and 6
    EXPECT_EQ(scale(1), 0.25);
    EXPECT_EQ(code(16), 6);
    EXPECT_EQ(code(17), -3);
    EXPECT_EQ(scale(2), 0x1p-9);
    EXPECT_EQ(code(32), 0.5);
    EXPECT_EQ(scale(7), 0x1p-9);
    EXPECT_EQ(code(127), 0);
    // Given, it may be too small: scales and codes saturate.
    of_tensor = 1e-30f, call.find_tensor_scale = false;
    ASSERT_TRUE(quantize(*context, call).ok());
    EXPECT_EQ(of_tensor, 1e-30f);
    EXPECT_EQ(scale(0), 448);
    EXPECT_EQ(code(0), -6);
    EXPECT_EQ(code(8), 0);
  }
}

// Its scale is the largest there is, not infinite: its code is the largest, with its sign, and those beside it are quotients.
TEST(Quantize, AnInfinityBesideAGivenTensorScaleSaturates) {
  const std::unique_ptr<Context> context = row_context("off", 2);
  constexpr int64_t kLength = 1024;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x(kLength, 1.0f);
  x[5] = kInf, x[6] = 1344, x[300] = -kInf, x[301] = -2688;
  std::vector<uint16_t> words;
  for (const float v : x) words.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
  float of_tensor = 1;
  for (const char* recipe : {"", "quantize/quantize_generic/x86-64/any/run_time=1"}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(fmt::format("{} {}", recipe, dtype_name(dtype)));
      std::vector<unsigned char> codes(kLength / 2), scales(kLength / 16);
      QuantizeCall call;
      call.recipe = recipe;
      void* const data = dtype == DType::kF32 ? static_cast<void*>(x.data()) : words.data();
      call.x = TensorView::contiguous(data, dtype, {1, kLength});
      call.out = TensorView::contiguous(codes.data(), DType::kF4E2M1, {1, kLength});
      call.scale = TensorView::contiguous(scales.data(), DType::kF8E4M3, {1, kLength / 16});
      call.tensor_scale = TensorView::contiguous(&of_tensor, DType::kF32, {});
      call.quant = Quantisation::kGroup;
      const Status status = quantize(*context, call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      const auto code = [&](int64_t i) { return load_element(DType::kF4E2M1, codes.data(), i); };
      EXPECT_EQ(load_element(DType::kF8E4M3, scales.data(), 0), 448);
      EXPECT_EQ(code(5), 6);
      EXPECT_EQ(code(6), 3);
      EXPECT_EQ(code(4), 0);
      EXPECT_EQ(code(300), -6);
      EXPECT_EQ(code(301), -6);
      EXPECT_EQ(code(1000), 6);  // a group of ones
    }
  }
}

TEST(Quantize, NaNInfinityZerosAndEqualRowsComeOutAsDocumented) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const char* recipe : {"", "quantize/quantize_generic/x86-64/any/run_time=1"}) {
    const std::unique_ptr<Context> context = row_context("off", 2);
    constexpr int64_t kLength = 40;
    std::vector<float> x(4 * kLength, 3);
    std::vector<unsigned char> codes(x.size());
    x[3] = kNaN, x[kLength + 5] = -kInf;
    std::fill_n(x.begin() + 2 * kLength, kLength, 0.0f);
    float scales[4];
    QuantizeCall call;
    call.recipe = recipe;
    call.x = TensorView::contiguous(x.data(), DType::kF32, {4, kLength});
    call.out = TensorView::contiguous(codes.data(), DType::kF8E4M3, {4, kLength});
    call.scale = TensorView::contiguous(scales, DType::kF32, {4, 1});
    ASSERT_TRUE(quantize(*context, call).ok());
    EXPECT_TRUE(std::isnan(scales[0]));
    EXPECT_EQ(scales[1], kInf);
    EXPECT_EQ(scales[2], 1);
    EXPECT_EQ(scales[3], 3.0f / 448);
    EXPECT_TRUE(std::isnan(load_element(DType::kF8E4M3, codes.data(), 0)));
    EXPECT_EQ(load_element(DType::kF8E4M3, codes.data(), kLength), 0);
    EXPECT_TRUE(std::isnan(load_element(DType::kF8E4M3, codes.data(), kLength + 5)));
    EXPECT_EQ(load_element(DType::kF8E4M3, codes.data(), 2 * kLength), 0);
    EXPECT_EQ(load_element(DType::kF8E4M3, codes.data(), 3 * kLength), 448);
    // One scale for all of them: a NaN anywhere is in it, whichever thread finds it.
    call.quant = Quantisation::kDynamic, call.scale = TensorView::contiguous(scales, DType::kF32, {});
    ASSERT_TRUE(quantize(*context, call).ok());
    EXPECT_TRUE(std::isnan(scales[0]));
    x[3] = 1;
    ASSERT_TRUE(quantize(*context, call).ok());
    EXPECT_EQ(scales[0], kInf);
  }
}

TEST(Quantize, NegativeZerosKeepTheirSign) {
  const std::unique_ptr<Context> context = row_context("off", 2);
  constexpr int64_t kLength = 512;
  std::vector<float> x(kLength, -0.0f);
  for (size_t i = 0; i < x.size(); i += 16) x[i] = -1.5f;
  for (const DType out : {DType::kF8E4M3, DType::kF8E5M2, DType::kF4E2M1}) {
    for (const Quantisation quant : {Quantisation::kRow, Quantisation::kGroup, Quantisation::kDynamic}) {
      if (out == DType::kF4E2M1 && quant != Quantisation::kGroup) continue;
      std::vector<unsigned char> codes(x.size());
      std::vector<float> scales(x.size());
      QuantizeCall call;
      call.quant = quant;
      call.x = TensorView::contiguous(x.data(), DType::kF32, {1, kLength});
      call.out = TensorView::contiguous(codes.data(), out, {1, kLength});
      call.scale = quant == Quantisation::kDynamic ? TensorView::contiguous(scales.data(), DType::kF32, {})
                   : quant == Quantisation::kRow
                       ? TensorView::contiguous(scales.data(), DType::kF32, {1, 1})
                       : TensorView::contiguous(scales.data(), DType::kF32, {1, kLength / 128});
      const Status s = quantize(*context, call);
      ASSERT_TRUE(s.ok()) << s.message();
      for (int64_t i = 0; i < kLength; ++i) {
        EXPECT_TRUE(std::signbit(load_element(out, codes.data(), i))) << dtype_name(out) << " element " << i;
      }
    }
  }
}

TEST(Quantize, RefusalsNameArgumentValueAndAllowedSet) {
  const std::unique_ptr<Context> context = row_context("off");
  float data[64] = {}, scale[8] = {};
  signed char codes[64] = {};
  const auto refusal = [&](auto&& change) {
    QuantizeCall call;
    call.x = TensorView::contiguous(data, DType::kF32, {4, 8});
    call.out = TensorView::contiguous(codes, DType::kI8, {4, 8});
    call.scale = TensorView::contiguous(scale, DType::kF32, {4});
    change(call);
    const Status status = quantize(*context, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.out.dtype = DType::kF32; }),
            "quantize: argument 'out' is f32, allowed with 'quant': e4m3, e5m2, e4m3fnuz, e5m2fnuz, i8, e2m1");
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.quant = Quantisation::kNone, c.scale = {}; }),
            "quantize: argument 'out' is i8: 'quant' is none, allowed: tensor, row, group, dynamic, block");
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.quant = Quantisation::kDynamic; }),
            "quantize: argument 'scale' has shape [4], expected one element: one scale for the tensor");
  EXPECT_THAT(refusal([](QuantizeCall& c) { c.scale = {}; }), HasSubstr("argument 'scale' is missing"));
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.tensor_scale = c.scale; }),
            "quantize: argument 'tensor_scale' has shape [4], expected one element");
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.find_tensor_scale = true; }),
            "quantize: argument 'tensor_scale' is missing: it is to be found");
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.hadamard = 8; }),
            "quantize: argument 'hadamard' is 8, allowed: 0, 16, 32, 64, 128");
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.hadamard = 16; }),
            "quantize: argument 'x' has rows of 8 elements, expected a multiple of 'hadamard', 16");
  EXPECT_EQ(refusal([&](QuantizeCall& c) { c.random_state = TensorView::contiguous(data, DType::kF32, {2}); }),
            "quantize: argument 'random_state' is f32, allowed: i32, or i64 as its words");
  EXPECT_EQ(refusal([&](QuantizeCall& c) { c.random_state = TensorView::contiguous(data, DType::kI32, {3}); }),
            "quantize: argument 'random_state' has shape [3], expected [2], contiguous: a seed and an offset");
  EXPECT_EQ(refusal([](QuantizeCall& c) { c.scale.dtype = DType::kF8E4M3; }),
            "quantize: argument 'scale' is e4m3, allowed for groups of e2m1 only");
}

TEST(SlowQuantize, EveryCompiledInstanceIsRightOnEveryTail) {
  const std::unique_ptr<Context> context = row_context("on");
  const Operator& op = quantize_operator();
  for (const char* text :
       {"m=8:n=64:x=f16:out=e5m2fnuz:quant=dynamic", "m=8:n=64:x=f32:out=e2m1:quant=group:scale=e8m0",
        "m=8:n=64:x=bf16:out=i8:quant=row:hadamard=32", "m=8:n=64:x=f32:out=e4m3:quant=group:state_words=2",
        "m=8:n=128:x=bf16:out=e2m1:quant=group:scale=e4m3:hadamard=128:state_words=2"}) {
    const std::vector<std::byte> problem = *op.parse_problem(text);
    for (const std::vector<std::byte>& tail : op.tail_problems(problem)) {
      const VerifyReport report = run_row_problem(*context, op, op.problem_text(tail));
      EXPECT_TRUE(report.passed) << op.problem_text(tail) << ": " << report.failure;
    }
  }
}

}  // namespace
}  // namespace tilewright
