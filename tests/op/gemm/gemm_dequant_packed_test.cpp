// SPDX-License-Identifier: MIT
// gemv_dequant_packed_cpu through the public API, and the packed form of weights of 4 bits: there and back from any strides, and
// every built kernel against the reference, with tails in N and K, scales and zero points of all kinds and orders, and every code.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "op/gemm/dequant_products.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {
namespace {

using test::DequantProduct;

constexpr const char* kPackedDequantFamily = "gemv_dequant_packed_cpu";
constexpr DType kPackedDequantTypes[] = {DType::kU4, DType::kI4, DType::kF4E2M1, DType::kI8};

std::vector<std::string> packed_dequant_recipes(const std::string& text) {
  return test::dequant_recipes(*gemm_operator().parse_problem(text), kPackedDequantFamily);
}
bool packed_dequant_runs() { return !packed_dequant_recipes("m=1:n=64:k=128:b=u4:packed=1").empty(); }

TEST(GemmDequantPacked, EveryBuiltKernelMatchesTheReference) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::set<std::string> seen;
  for (const char* mode : {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=f16:b=u4:scale_b=f32.1x64:zero_b=i8",
                           "a=bf16:b=i4:scale_b=bf16.1x32", "a=bf16:b=u4:scale_b=e4m3.1x32:zero_b=f16",
                           "a=bf16:b=i4:scale_b=f16.128x128:zero_b=i4", "a=f16:b=i4:scale_b=f32",
                           "a=bf16:b=i8:scale_b=f32", "a=f16:b=i8:scale_b=f16.1x128:zero_b=i8",
                           "a=bf16:b=i8:scale_b=f16.1x32:zero_b=bf16", "a=bf16:b=e2m1:scale_b=e8m0.1x32",
                           "a=f16:b=e2m1:scale_b=e8m0.1x64", "a=bf16:b=u4:scale_b=f16.1x32:zero_b=u4"}) {
    for (const char* sizes :
         {"m=1:n=200:k=300", "m=3:n=37:k=128", "m=16:n=70:k=258", "m=21:n=33:k=1001:bias=f32:alpha=1"}) {
      for (const InputData data : {InputData::kNormal, InputData::kPositive}) {
        const std::string text = fmt::format("{}:{}:packed=1", sizes, mode);
        EXPECT_GE(test::check_dequant_kernels(text, data, seen, kPackedDequantFamily), 1);
      }
    }
  }
  const auto has = [&](const char* mma) {
    return std::any_of(seen.begin(), seen.end(),
                       [&](const std::string& s) { return s.find(mma) != std::string::npos; });
  };
  EXPECT_TRUE(has("mma=fma_avx2"));
}

// More blocks of K than A keeps near, and than scales are widened at once; neighbours along K and along N.
TEST(GemmDequantPacked, LongKInPieces) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::set<std::string> seen;
  for (const char* mode :
       {"b=u4:scale_b=f16.1x128:zero_b=u4", "b=u4:scale_b=bf16.1x128.0.1.52:zero_b=u4.0.1.52",
        "b=e2m1:scale_b=e8m0.1x32", "b=e2m1:scale_b=e8m0.1x32.0.1.52", "b=i4:scale_b=f32.1x64:zero_b=i4",
        "b=i8:scale_b=f16.1x64:zero_b=i8", "b=i8:scale_b=f32.1x128.0.1.52:zero_b=i4.0.1.52"}) {
    for (const char* sizes : {"m=1:n=52:k=8448", "m=2:n=52:k=12576"}) {
      EXPECT_GE(test::check_dequant_kernels(fmt::format("{}:{}:packed=1", sizes, mode), InputData::kNormal, seen,
                                            kPackedDequantFamily),
                1);
    }
  }
}

TEST(GemmDequantPacked, StridesBatchesAndGatesAreServed) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  std::set<std::string> seen;
  for (const char* text :
       {"m=2:n=40:k=256:batch=3:b=u4:packed=1:scale_b=f16.1x128:zero_b=u4",
        "m=3:n=40:k=200:b=i4:packed=1:sa=0.1.3:sd=0.1.7:scale_b=f16.1x32",
        "m=4:n=36:k=384:b=u4:packed=1:scale_b=f16.1x128.0.1.36:zero_b=u4.0.1.36",
        "m=4:n=36:k=384:b=u4:packed=1:scale_b=f16.1x128.0.1.37:zero_b=u4.0.1.37",
        "m=4:n=36:k=384:b=i8:packed=1:scale_b=f16.1x64.0.1.40:zero_b=i8.0.1.36",
        "m=2:n=36:k=384:b=u4:packed=1:scale_b=f16.1x64.0.2.80:zero_b=u4.0.7.1",
        "m=3:n=74:k=192:b=u4:packed=1:scale_b=f16.1x64:gate=separated:act=silu",
        "m=3:n=74:k=192:b=e2m1:packed=1:scale_b=e8m0.1x32:gate=interleaved:act=silu:steps=add.f32",
        "m=1:n=1:k=1:b=u4:packed=1:scale_b=f16.1x32", "m=1:n=17:k=2:b=i4:packed=1",
        "m=2:n=5:k=127:b=i8:packed=1:c=bf16", "m=40:n=50:k=160:b=u4:packed=1:scale_b=f16.1x32:bias=bf16"}) {
    EXPECT_GE(test::check_dequant_kernels(text, InputData::kNormal, seen, kPackedDequantFamily), 1) << text;
  }
}

TEST(GemmDequantPacked, OthersAreAnotherFamilys) {
  for (const char* text : {"m=1:n=40:k=256:b=u4", "m=1:n=40:k=256:b=i4:packed=1:scale_b=f16.1x16",
                           "m=1:n=40:k=256:b=u4:packed=1:scale_a=f32.1x128", "m=1:n=40:k=0:b=u4:packed=1",
                           "m=1:n=40:k=256:a=e2m1:b=e2m1:packed=1"}) {
    EXPECT_TRUE(packed_dequant_recipes(text).empty()) << text;
    std::set<std::string> seen;
    EXPECT_EQ(test::check_dequant_kernels(text, InputData::kNormal, seen, "gemm_generic"), 1) << text;
  }
}

// A of one 1 among zeros: D is the widened weight, exactly, of every code at every place of a block.
TEST(GemmDequantPacked, EveryCodeIsWidenedExactly) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const DType dtype : kPackedDequantTypes) {
    const int64_t codes = dtype_bits(dtype) == 4 ? 16 : 256;
    for (int64_t at = 0; at < 132; at += 7) {
      DequantProduct p(dtype, 1, codes, 132);
      for (int64_t i = 0; i < p.k; ++i) p.set(0, i, i == at ? 1.0f : 0.0f);
      for (int64_t n = 0; n < codes; ++n) {
        const int64_t index = n * p.k + at;
        uint8_t& byte = p.b[static_cast<size_t>(codes == 16 ? index / 2 : index)];
        if (codes == 256) byte = static_cast<uint8_t>(n);
        if (codes == 16) byte = static_cast<uint8_t>((byte & (index % 2 != 0 ? 0x0F : 0xF0)) | n << index % 2 * 4);
      }
      for (const std::string& recipe : packed_dequant_recipes(p.text() + ":packed=1")) {
        p.run(recipe, /*packed=*/true);
        for (int64_t n = 0; n < codes; ++n) {
          ASSERT_EQ(p.d[static_cast<size_t>(n)], load_element(dtype, p.b.data(), n * p.k + at))
              << dtype_name(dtype) << " code " << n << " at " << at << " " << recipe;
        }
      }
    }
  }
}

TEST(GemmDequantPacked, ASmallValueBesideALargeOneIsNotLost) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const DType dtype : kPackedDequantTypes) {
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
      for (const std::string& recipe : packed_dequant_recipes(p.text() + ":packed=1")) {
        p.run(recipe, /*packed=*/true);
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

TEST(GemmDequantPacked, InfinityAndNanReachWhatIeeeSays) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const DType dtype : kPackedDequantTypes) {
    for (const float special : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
      DequantProduct p(dtype, 2, 40, 384);
      p.set(1, 140, special);
      for (const std::string& recipe : packed_dequant_recipes(p.text() + ":packed=1")) {
        p.run(recipe, /*packed=*/true);
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

// The largest magnitudes that digits and weights have, all of one sign: sums come as near to the end of i32 as they can.
TEST(GemmDequantPacked, LargestSumsOfAGroupDoNotWrap) {
  if (!packed_dequant_runs()) GTEST_SKIP() << "no AVX2";
  for (const auto& [dtype, code] :
       {std::pair{DType::kU4, 0xFF}, {DType::kI4, 0x88}, {DType::kF4E2M1, 0xFF}, {DType::kI8, 0x80}}) {
    for (const char* scale : {"", ":scale_b=e8m0.1x32", ":scale_b=e8m0.1x128"}) {
      const int64_t n = 16, k = 256;
      std::vector<uint16_t> a(static_cast<size_t>(k), 0x3FFF);  // 1.9921875: 255 of 128ths
      std::vector<uint8_t> b(static_cast<size_t>(n * k * dtype_bits(dtype) / 8), static_cast<uint8_t>(code)),
          ones(128, 127);
      std::vector<float> d(static_cast<size_t>(n));
      a[5] = 0x3C80;  // 2^-6: the block needs all of its digits
      GemmCall call;
      call.a = TensorView::contiguous(a.data(), DType::kBf16, {1, k});
      call.b = TensorView::contiguous(b.data(), dtype, {n, k}).transposed();
      call.d = TensorView::contiguous(d.data(), DType::kF32, {1, n});
      const std::string text = fmt::format("m=1:n={}:k={}:b={}:d=f32:packed=1{}", n, k, dtype_name(dtype), scale);
      if (*scale != 0) {
        const int64_t group = text.back() == '8' ? 128 : 32;
        call.scale_b = TensorView::contiguous(ones.data(), DType::kE8M0, {n, k / group}).transposed();
        call.scale_group_b = {1, group};
      }
      const int64_t size = *gemm_packed_bytes(dtype, n, k);
      std::unique_ptr<void, decltype(&std::free)> bytes(
          std::aligned_alloc(64, static_cast<size_t>((size + 63) / 64 * 64)), &std::free);
      ASSERT_TRUE(gemm_pack_weights(test::built_context(), call.b, bytes.get(), size).ok());
      call.b = *gemm_packed_view(bytes.get(), size);
      const double weight = load_element(dtype, b.data(), 0);
      const double want = (255 * 1.9921875 + 0x1p-6) * weight;
      for (const std::string& recipe : packed_dequant_recipes(text)) {
        call.options.recipe = recipe;
        ASSERT_TRUE(gemm(test::built_context(), call).ok()) << text;
        for (const float got : d) ASSERT_NEAR(got, want, std::fabs(want) * 0x1p-22) << text << " " << recipe;
      }
    }
  }
}

// ---- Packing ----------------------------------------------------------------------------------------------------------

// Codes of [batch, K, N] in memory of any strides, elements of two a byte.
struct NibbleMatrix {
  int64_t batch, k, n, stride_batch, stride_k, stride_n;
  std::vector<uint8_t> bytes;
  NibbleMatrix(int64_t b, int64_t rows, int64_t columns, int64_t sb, int64_t sk, int64_t sn, uint8_t fill)
      : batch(b), k(rows), n(columns), stride_batch(sb), stride_k(sk), stride_n(sn) {
    bytes.assign(static_cast<size_t>((index(b - 1, rows - 1, columns - 1) + 2) / 2), fill);
  }
  int64_t index(int64_t b, int64_t row, int64_t column) const {
    return b * stride_batch + row * stride_k + column * stride_n;
  }
  int code(int64_t b, int64_t row, int64_t column) const {
    const int64_t i = index(b, row, column);
    return bytes[static_cast<size_t>(i / 2)] >> i % 2 * 4 & 15;
  }
  TensorView view(DType dtype) {
    return TensorView::strided(bytes.data(), dtype, {batch, k, n}, {stride_batch, stride_k, stride_n});
  }
};

TEST(GemmPackedNibbles, PackAndUnpackKeepEveryCodeAndNothingElse) {
  for (const DType dtype : {DType::kU4, DType::kI4, DType::kF4E2M1}) {
    for (const auto& [k, n] : {std::pair<int64_t, int64_t>{1, 1}, {7, 17}, {128, 16}, {130, 33}, {300, 50}}) {
      for (const bool along_k : {true, false}) {
        for (const int64_t pad : {0, 1, 4}) {  // odd rows share bytes with their neighbours
          const int64_t inner = (along_k ? k : n) + pad, outer = along_k ? n : k;
          const int64_t sb = inner * outer + pad, sk = along_k ? 1 : inner, sn = along_k ? inner : 1;
          NibbleMatrix from(2, k, n, sb, sk, sn, 0), to(2, k, n, sb, sk, sn, 0xA5);
          uint32_t random = 11;
          for (uint8_t& byte : from.bytes) byte = static_cast<uint8_t>((random = random * 1664525 + 1013904223) >> 24);
          const int64_t size = *gemm_packed_bytes(dtype, n, k, 2);
          std::unique_ptr<std::byte, decltype(&std::free)> packed(
              static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((size + 63) / 64 * 64))), &std::free);
          std::memset(packed.get(), 0xFF, static_cast<size_t>(size));
          ASSERT_TRUE(gemm_pack_weights(test::built_context(), from.view(dtype), packed.get(), size).ok());
          const Result<TensorView> view = gemm_packed_view(packed.get(), size);
          ASSERT_TRUE(view.ok()) << view.status().to_string();
          EXPECT_EQ(view->dtype, dtype);
          ASSERT_TRUE(gemm_unpack_weights(test::built_context(), *view, to.view(dtype)).ok());
          NibbleMatrix want = to;
          for (int64_t b = 0; b < 2; ++b) {
            for (int64_t row = 0; row < k; ++row) {
              for (int64_t column = 0; column < n; ++column) {
                ASSERT_EQ(to.code(b, row, column), from.code(b, row, column))
                    << k << " x " << n << " " << row << " " << column;
                const int64_t i = want.index(b, row, column);
                uint8_t& byte = want.bytes[static_cast<size_t>(i / 2)];
                byte = static_cast<uint8_t>((byte & (i % 2 != 0 ? 0x0F : 0xF0)) | (0xA5 & (i % 2 != 0 ? 0xF0 : 0x0F)));
              }
            }
          }
          // What is no element kept what it had.
          EXPECT_TRUE(std::all_of(want.bytes.begin(), want.bytes.end(), [](uint8_t byte) { return byte == 0xA5; }));
        }
      }
    }
  }
}

TEST(GemmPackedNibbles, AnotherTypeOrSizeIsRefused) {
  std::vector<uint8_t> plain(64 * 64 / 2);
  alignas(64) static std::byte packed[64 + 4 * 128 * 16];
  const TensorView b = TensorView::contiguous(plain.data(), DType::kU4, {64, 64});
  const int64_t size = *gemm_packed_bytes(DType::kU4, 64, 64);
  ASSERT_LE(size, static_cast<int64_t>(sizeof(packed)));
  EXPECT_FALSE(gemm_pack_weights(test::built_context(), b, packed, size - 1).ok());
  ASSERT_TRUE(gemm_pack_weights(test::built_context(), b, packed, size).ok());
  EXPECT_EQ(gemm_packed_view(packed, size - 64).status().code(), StatusCode::kCorrupt);
  const TensorView view = *gemm_packed_view(packed, size);
  EXPECT_FALSE(
      gemm_unpack_weights(test::built_context(), view, TensorView::contiguous(plain.data(), DType::kI4, {64, 64}))
          .ok());
  GemmPackedHeader header;
  std::memcpy(&header, packed, sizeof(header));
  header.kp = 1;  // as if of another layout
  std::memcpy(packed, &header, sizeof(header));
  EXPECT_EQ(gemm_packed_view(packed, size).status().code(), StatusCode::kCorrupt);
}

}  // namespace
}  // namespace tilewright
