// SPDX-License-Identifier: MIT
// gemv_dequant_cpu through the public API: every built kernel against the reference, at sizes that leave tails in N and K,
// with scales and zero points of all kinds and orders; and every code that a weight or a power of two may have.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "op/gemm/dequant_products.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {
namespace {

using test::check_dequant_kernels;
using test::dequant_recipes;
using test::DequantProduct;

bool dequant_runs() { return !dequant_recipes(*gemm_operator().parse_problem("m=1:n=64:k=128:b=u4")).empty(); }

TEST(GemmDequant, EveryBuiltKernelMatchesTheReference) {
  if (!dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::set<std::string> seen;
  for (const char* mode :
       {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=f16:b=u4:scale_b=f32.1x64:zero_b=i8",
        "a=bf16:b=i4:scale_b=bf16.1x32", "a=bf16:b=u4:scale_b=e4m3.1x32:zero_b=f16",
        "a=bf16:b=i4:scale_b=f16.128x128:zero_b=i4", "a=f16:b=i4:scale_b=f32", "a=bf16:b=i8:scale_b=f32",
        "a=f16:b=i8:scale_b=f16.1x128:zero_b=i8", "a=bf16:b=i8:scale_b=f16.1x32:zero_b=bf16",
        "a=bf16:b=e2m1:scale_b=e8m0.1x32", "a=f16:b=e2m1:scale_b=e8m0.1x64", "a=bf16:b=e4m3:scale_b=f32",
        "a=f16:b=e5m2", "a=bf16:b=e4m3:scale_b=f32.1x128", "a=bf16:b=e5m2:scale_b=bf16.1x64"}) {
    for (const char* sizes :
         {"m=1:n=200:k=300", "m=3:n=37:k=128", "m=16:n=70:k=258", "m=5:n=33:k=1000:bias=f32:alpha=1"}) {
      for (const InputData data : {InputData::kNormal, InputData::kPositive}) {
        EXPECT_GE(check_dequant_kernels(fmt::format("{}:{}", sizes, mode), data, seen), 1);
      }
    }
  }
  const auto has = [&](const char* mma) {
    return std::any_of(seen.begin(), seen.end(),
                       [&](const std::string& s) { return s.find(mma) != std::string::npos; });
  };
  EXPECT_TRUE(has("mma=fma_avx2"));
}

TEST(GemmDequant, StridesBatchesAndGatesAreServed) {
  if (!dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::set<std::string> seen;
  for (const char* text :
       {"m=2:n=40:k=256:batch=3:b=u4:scale_b=f16.1x128:zero_b=u4",
        "m=2:n=40:k=256:batch=2:b=u4:sb=0.1.256:scale_b=f16.1x64",
        "m=3:n=40:k=200:b=i4:sa=0.1.3:sb=0.1.220:sd=0.1.7:scale_b=f16.1x32",
        "m=1:n=70:k=300:b=i8:sb=0.1.333:scale_b=f32",
        // Scales and zero points along N, as AWQ and GPTQ have them.
        "m=4:n=36:k=384:b=u4:scale_b=f16.1x128.0.1.36:zero_b=u4.0.1.36",
        "m=4:n=36:k=384:b=i8:scale_b=f16.1x64.0.1.40:zero_b=i8.0.1.36",
        "m=4:n=36:k=384:b=e2m1:scale_b=e8m0.1x32.0.1.36",
        "m=3:n=74:k=192:b=u4:scale_b=f16.1x64:gate=separated:act=silu",
        "m=3:n=74:k=192:b=e2m1:scale_b=e8m0.1x32:gate=interleaved:act=silu:steps=add.f32",
        "m=1:n=1:k=1:b=u4:scale_b=f16.1x32", "m=1:n=17:k=2:b=i4", "m=2:n=5:k=127:b=e4m3:sb=0.1.129:c=bf16"}) {
    EXPECT_GE(check_dequant_kernels(text, InputData::kNormal, seen), 1) << text;
  }
}

TEST(GemmDequant, OthersAreAnotherFamilys) {
  for (const char* text :
       {"m=17:n=40:k=256:b=u4:scale_b=f16.1x128", "m=1:n=40:k=256:b=u4:layout=rrr", "m=1:n=40:k=255:b=u4",
        "m=1:n=40:k=256:b=i4:scale_b=f16.1x16", "m=1:n=40:k=256:b=u4:scale_a=f32.1x128", "m=1:n=40:k=256:b=i8:packed=1",
        "m=1:n=40:k=0:b=u4", "m=1:n=40:k=256:b=u4:batch_invariant=1", "m=1:n=40:k=256:a=e4m3:b=e2m1"}) {
    EXPECT_TRUE(dequant_recipes(*gemm_operator().parse_problem(text)).empty()) << text;
  }
}

// D = 1 x W of K = 64 whose first column of A is 1 and others are 0: D is the widened weight, exactly.
TEST(GemmDequant, EveryCodeIsWidenedExactly) {
  if (!dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const DType dtype : {DType::kI8, DType::kF8E4M3, DType::kF8E5M2, DType::kI4, DType::kU4, DType::kF4E2M1}) {
    const bool nibbles = dtype_bits(dtype) == 4;
    const int64_t codes = nibbles ? 16 : 256;
    for (int64_t at = 0; at < 64; at += 7) {
      std::vector<uint8_t> b(static_cast<size_t>(codes * 64)), scales(static_cast<size_t>(codes * 2), 127);
      std::vector<uint16_t> a(64);
      a[static_cast<size_t>(at)] = 0x3F80;
      for (int64_t n = 0; n < codes; ++n) {
        const int64_t index = n * 64 + at;
        if (nibbles) b[static_cast<size_t>(index / 2)] = static_cast<uint8_t>(n << index % 2 * 4);
        if (!nibbles) b[static_cast<size_t>(index)] = static_cast<uint8_t>(n);
      }
      std::vector<float> d(static_cast<size_t>(codes));
      GemmCall call;
      call.a = TensorView::contiguous(a.data(), DType::kBf16, {1, 64});
      call.b = TensorView::contiguous(b.data(), dtype, {codes, 64}).transposed();
      call.d = TensorView::contiguous(d.data(), DType::kF32, {1, codes});
      call.scale_b = TensorView::contiguous(scales.data(), DType::kE8M0, {codes, 2}).transposed();
      call.scale_group_b = {1, 32};
      const GemmProblem p = [&] {
        GemmProblem made;
        GemmBindings bindings;
        EXPECT_TRUE(make_gemm_problem(call, true, made, bindings).ok());
        return made;
      }();
      for (const std::string& recipe : dequant_recipes(*gemm_operator().parse_problem(print_gemm_problem(p)))) {
        call.options.recipe = recipe;
        ASSERT_TRUE(gemm(test::built_context(), call).ok());
        for (int64_t n = 0; n < codes; ++n) {
          const double want = load_element(dtype, b.data(), n * 64 + at);
          const float got = d[static_cast<size_t>(n)];
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
              << dtype_name(dtype) << " code " << n << ": " << got << ", not " << want << " " << recipe;
        }
      }
    }
  }
}

constexpr DType kWholeTypes[] = {DType::kU4, DType::kI4, DType::kF4E2M1, DType::kI8};

TEST(GemmDequant, ASmallValueBesideALargeOneIsNotLost) {
  if (!dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const DType dtype : kWholeTypes) {
    for (const int64_t m : {1, 3, 6}) {
      DequantProduct p(dtype, m, 19, 640);
      // Weights of the large values are 0: what is left of their blocks are the small ones.
      p.set(0, 3, 0x1p40f), p.set(m - 1, 200, -0x1p60f), p.set(0, 330, 0x1p-80f), p.set(m - 1, 639, 0x1p-20f);
      for (int64_t column = 0; column < p.n; ++column) {
        for (const int64_t at : {3, 200}) {
          const int64_t index = column * p.k + at;
          if (dtype == DType::kI8) p.b[static_cast<size_t>(index)] = 0;
          if (dtype != DType::kI8) p.b[static_cast<size_t>(index / 2)] &= static_cast<uint8_t>(index % 2 ? 0x0F : 0xF0);
        }
      }
      for (const std::string& recipe : dequant_recipes(*gemm_operator().parse_problem(p.text()))) {
        p.run(recipe);
        for (int64_t i = 0; i < p.m * p.n; ++i) {
          double sum = 0, squares = 0;
          for (int64_t at = 0; at < p.k; ++at) {
            const double product = p.product(i / p.n, i % p.n, at);
            sum += product, squares += product * product;
          }
          const double allowed = accumulation_bound(DType::kF32, p.k, std::sqrt(squares), sum);
          ASSERT_NEAR(p.d[static_cast<size_t>(i)], sum, allowed) << p.text() << " " << i << " " << recipe;
        }
      }
    }
  }
}

TEST(GemmDequant, InfinityAndNanReachWhatIeeeSays) {
  if (!dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const DType dtype : kWholeTypes) {
    for (const float special : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
      DequantProduct p(dtype, 2, 40, 384);
      p.set(1, 140, special);
      for (const std::string& recipe : dequant_recipes(*gemm_operator().parse_problem(p.text()))) {
        p.run(recipe);
        for (int64_t column = 0; column < p.n; ++column) {
          const double want = p.product(1, column, 140);
          const float got = p.d[static_cast<size_t>(p.n + column)];
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == static_cast<float>(want))
              << dtype_name(dtype) << " " << column << ": " << got << ", not " << want << " " << recipe;
          ASSERT_TRUE(std::isfinite(p.d[static_cast<size_t>(column)])) << recipe;
        }
      }
    }
  }
}

TEST(GemmDequant, EveryPowerOfTwoScalesExactly) {
  if (!dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::vector<uint8_t> b(256 * 16, 0x22), scales(256);  // 1 in e2m1
  std::vector<uint16_t> a(32);
  a[5] = 0x3F80;
  for (size_t n = 0; n < 256; ++n) scales[n] = static_cast<uint8_t>(n);
  std::vector<float> d(256);
  GemmCall call;
  call.a = TensorView::contiguous(a.data(), DType::kBf16, {1, 32});
  call.b = TensorView::contiguous(b.data(), DType::kF4E2M1, {256, 32}).transposed();
  call.d = TensorView::contiguous(d.data(), DType::kF32, {1, 256});
  call.scale_b = TensorView::contiguous(scales.data(), DType::kE8M0, {256, 1}).transposed();
  call.scale_group_b = {1, 32};
  for (const char* order : {"e8m0.1x32", "e8m0.1x32.0.1.256"}) {
    const std::string text = fmt::format("m=1:n=256:k=32:b=e2m1:d=f32:scale_b={}", order);
    for (const std::string& recipe : dequant_recipes(*gemm_operator().parse_problem(text))) {
      call.options.recipe = recipe;
      ASSERT_TRUE(gemm(test::built_context(), call).ok());
      for (size_t n = 0; n < 255; ++n) {
        ASSERT_EQ(d[n], std::ldexp(1.0f, static_cast<int>(n) - 127)) << n << " " << recipe;
      }
      ASSERT_TRUE(std::isnan(d[255]));
    }
  }
}

}  // namespace
}  // namespace tilewright
