// SPDX-License-Identifier: MIT
#include "dispatch/registry/kernel_key.hpp"

#include <gtest/gtest.h>

#include "core/fields.hpp"
#include "gemm/gemm_args.hpp"

namespace tilewright {
namespace {

TEST(KernelKey, TextParsesBackToTheSameKey) {
  const GemmCpuConfig config{DType::kBf16, CpuMma::kAmxBf16, 32, 32, 0};
  const KernelKey key = make_key("gemm", "gemm_cpu", "x86-64-v4-amx", "dtype=bf16", print_fields(config));
  EXPECT_EQ(key.text, "gemm/gemm_cpu/x86-64-v4-amx/dtype=bf16/dtype=bf16:mma=amx_bf16:tile_m=32:tile_n=32:prefetch=0");
  Result<KernelKey> back = parse_key(key.text);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, key);
  EXPECT_EQ(back->digest, key.digest);
  GemmCpuConfig parsed{};
  ASSERT_TRUE(parse_fields(back->config(), parsed).ok());
  EXPECT_TRUE(parsed == config);
}

TEST(KernelKey, EveryConfigFieldChangesTheText) {
  const GemmCpuConfig base{DType::kBf16, CpuMma::kAmxBf16, 32, 32, 0};
  GemmCpuConfig changed[] = {base, base, base, base, base};
  changed[0].dtype = DType::kF32;
  changed[1].mma = CpuMma::kDotBf16;
  changed[2].tile_m = 16;
  changed[3].tile_n = 16;
  changed[4].prefetch = 1;
  for (const GemmCpuConfig& c : changed) EXPECT_NE(print_fields(c), print_fields(base));
}

TEST(KernelKey, MalformedTextIsRefusedWithTheReason) {
  for (const char* text : {"", "gemm", "gemm/f/t/s", "gemm/f/t/s/c/extra", "gemm//t/s/c", "gemm/f/t/s/c d",
                           "gemm/f/t/s/c,d", "gemm/f/t/s/\"c\"", "gemm/f/t/s/c\n"}) {
    Result<KernelKey> key = parse_key(text);
    EXPECT_FALSE(key.ok()) << text;
    EXPECT_FALSE(key.status().message().empty()) << text;
  }
}

TEST(KernelKey, ConfigTextWithMissingUnknownOrExtraFieldsIsRefused) {
  GemmCpuConfig config{};
  for (const char* text : {"", "dtype=bf16", "dtype=bf16:mma=amx_bf16:tile_m=32:tile_n=32",
                           "dtype=bf16:mma=nonsense:tile_m=1:tile_n=16:prefetch=0",
                           "dtype=bf16:mma=amx_bf16:tile_m=x:tile_n=32:prefetch=0",
                           "dtype=bf16:mma=amx_bf16:tile_m=99999999999:tile_n=32:prefetch=0",
                           "dtype=bf16:mma=amx_bf16:tile_m=32:tile_n=32:prefetch=0:more=1",
                           "mma=amx_bf16:dtype=bf16:tile_m=32:tile_n=32:prefetch=0"}) {
    EXPECT_FALSE(parse_fields(text, config).ok()) << text;
  }
}

}  // namespace
}  // namespace tilewright
