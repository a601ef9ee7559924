// SPDX-License-Identifier: MIT
// gemm_dequant_cpu asked about CPUs that need not be here: what values are multiplied as, where scales stand, and what is not its.
#include <gmock/gmock.h>

#include <tuple>

#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::string> configs(const char* target, const std::string& text) {
  const GemmProblem p = problem(text);
  const DeviceSpec device = test::cpu_device(target);
  EXPECT_TRUE(gemm_dequant_cpu_family().supports(erase(p), device).ok()) << text;
  std::vector<std::string> found;
  for (const Candidate& c : gemm_dequant_cpu_family().candidates(erase(p), device)) {
    EXPECT_TRUE(gemm_dequant_cpu_family().check(erase(p), device, c.step).ok()) << c.step.key.text;
    found.emplace_back(c.step.key.config());
  }
  EXPECT_FALSE(found.empty()) << text;
  return found;
}

TEST(GemmDequantCpuFamily, ValuesAreMultipliedAsTheNarrowestTypeThatHoldsThem) {
  constexpr const char* kMany = "m=512:n=4096:k=4096:";
  for (const auto& [mode, want, scales] :
       {std::tuple{"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "dtype=bf16:mma=amx_bf16", "by_group=1"},
        {"a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128", "dtype=bf16:mma=amx_bf16", "by_group=1"},
        // Powers of two, and scales of e4m3 times values of few bits, are as exact as the values.
        {"a=bf16:b=e2m1:scale_b=e8m0.1x32", "dtype=bf16:mma=amx_bf16", "by_group=0"},
        {"a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16", "dtype=bf16:mma=amx_bf16", "by_group=0"},
        {"a=e4m3:scale_a=e4m3.1x32:scale_b=e4m3.1x32", "dtype=bf16:mma=amx_bf16", "by_group=0"},
        {"a=e4m3", "dtype=bf16:mma=amx_bf16", "by_group=0"},
        {"a=i8:scale_a=f32.1x128:scale_b=f32.128x128", "dtype=i8:mma=amx_i8", "by_group=1"},
        // An AMX tile of i8 is 64 of K; nine bits and more, and groups of 16, are f32's.
        {"a=i8:scale_a=f32.1x32:scale_b=f32.1x32", "dtype=bf16:mma=amx_bf16", "by_group=1"},
        {"a=f16:b=u4:scale_b=f16.1x128", "dtype=f32:mma=fma_avx512", "by_group=0"},
        {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=f16", "dtype=f32:mma=fma_avx512", "by_group=0"},
        {"a=bf16:b=u4:scale_b=f16.1x16", "dtype=f32:mma=fma_avx512", "by_group=0"},
        {"a=f32:scale_a=f32.1x128", "dtype=f32:mma=fma_avx512", "by_group=0"}}) {
    EXPECT_THAT(configs("x86-64-v4-amx", std::string(kMany) + mode).front(), AllOf(HasSubstr(want), HasSubstr(scales)))
        << mode;
  }
}

TEST(GemmDequantCpuFamily, EveryCpuWithVectorsHasOne) {
  for (const char* mode : {"a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4", "a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128",
                           "a=f16:b=e2m1:scale_b=e8m0.1x32", "a=e2m1:scale_a=e4m3.1x16:scale_b=e4m3.1x16"}) {
    const std::string text = std::string("m=64:n=512:k=512:") + mode;
    EXPECT_THAT(configs("x86-64-v3", text).front(), HasSubstr("dtype=f32:mma=fma_avx2:tile_m=6")) << mode;
    EXPECT_THAT(configs("x86-64-v4", text).front(), HasSubstr("dtype=f32:mma=fma_avx512:tile_m=14")) << mode;
    EXPECT_FALSE(gemm_dequant_cpu_family().supports(erase(problem(text)), test::cpu_device("x86-64")).ok()) << mode;
  }
  EXPECT_THAT(configs("x86-64-v4-bf16", "m=64:n=512:k=512:a=bf16:b=i4:scale_b=f16.1x128").front(),
              AllOf(HasSubstr("mma=dot_bf16"), HasSubstr("by_group=1")));
  EXPECT_THAT(configs("x86-64-v3", "m=64:n=512:k=512:a=i8:scale_a=f32.1x128").front(), HasSubstr("mma=dot_i8_avx2"));
}

TEST(GemmDequantCpuFamily, WhatIsMultipliedAsItLiesIsAnothers) {
  const DeviceSpec device = test::cpu_device("x86-64-v4-amx");
  for (const auto& [text, why] : {std::pair{"m=64:n=64:k=64:a=bf16", "gemm_cpu's"},
                                  {"m=64:n=64:k=64:a=i8:scale_a=f32:scale_b=f32", "gemm_cpu's"},
                                  {"m=64:n=64:k=0:a=bf16:b=i4", "K = 0"},
                                  {"m=0:n=64:k=64:a=bf16:b=i4", "D is empty"},
                                  {"m=64:n=64:k=64:a=bf16:b=i4:packed=fragments", "packed as NVIDIA GPUs read it"}}) {
    const Status status = gemm_dequant_cpu_family().supports(erase(problem(text)), device);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << text;
    EXPECT_THAT(status.message(), HasSubstr(why)) << text;
  }
}

TEST(GemmDequantCpuFamily, BatchInvarianceIsOneInstructionWhateverTheRowsAre) {
  const DeviceSpec device = test::cpu_device("x86-64-v4-amx");
  for (const char* rows : {"m=1", "m=17", "m=512"}) {
    const std::string text = std::string(rows) + ":n=512:k=512:a=bf16:b=u4:scale_b=f16.1x128:batch_invariant=1";
    EXPECT_THAT(configs("x86-64-v4-amx", text), testing::Each(HasSubstr("mma=amx_bf16")));
    // Nobody else, or a row's bits would depend on how many others come with it.
    EXPECT_THAT(gemm_generic_family().supports(erase(problem(text)), device).message(),
                HasSubstr("gemm_dequant_cpu's"));
    EXPECT_FALSE(gemv_dequant_cpu_family().supports(erase(problem(text)), device).ok()) << text;
  }
}

}  // namespace
}  // namespace tilewright
