// SPDX-License-Identifier: MIT
// gemv_dequant_cpu asked about CPUs that need not be here: what it serves, by which instruction, and why not.
#include <gmock/gmock.h>

#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::HasSubstr;

std::string first_dequant_config(const char* target, const char* text) {
  const GemmProblem p = problem(text);
  const DeviceSpec device = test::cpu_device(target);
  EXPECT_TRUE(gemv_dequant_cpu_family().supports(erase(p), device).ok()) << text;
  const std::vector<Candidate> found = gemv_dequant_cpu_family().candidates(erase(p), device);
  return found.empty() ? "" : std::string(found.front().step.key.config());
}

TEST(GemvDequantCpuFamily, TheBestInstructionOfTheTargetIsFirst) {
  constexpr const char* kW4 = "m=1:n=4096:k=4096:b=u4:scale_b=f16.1x128:zero_b=u4";
  EXPECT_THAT(first_dequant_config("x86-64-v4-bf16", kW4), HasSubstr("mma=dot_i8_vnni:rows=1"));
  EXPECT_THAT(first_dequant_config("x86-64-v4", kW4), HasSubstr("mma=fma_avx512:rows=1"));
  EXPECT_THAT(first_dequant_config("x86-64-v3", kW4), HasSubstr("mma=fma_avx2:rows=1"));
  for (const char* text : {"m=1:n=4096:k=4096:a=f16:b=u4:scale_b=f16.1x128", "m=1:n=4096:k=4096:b=i8:scale_b=f32",
                           "m=1:n=4096:k=4096:b=e2m1:scale_b=e8m0.1x32"}) {
    EXPECT_THAT(first_dequant_config("x86-64-v4-bf16", text), HasSubstr("mma=dot_i8_vnni:rows=1")) << text;
  }
  // Bytes hold neither 8-bit floats nor an i8 less its zero point.
  for (const char* text :
       {"m=1:n=4096:k=4096:b=e4m3:scale_b=f32", "m=1:n=4096:k=4096:b=i8:scale_b=f16.1x128:zero_b=i8"}) {
    EXPECT_THAT(first_dequant_config("x86-64-v4-bf16", text), HasSubstr("mma=fma_avx512")) << text;
  }
  // Rows share what is widened.
  EXPECT_THAT(first_dequant_config("x86-64-v4-bf16", "m=8:n=4096:k=4096:b=u4:scale_b=f16.1x128"), HasSubstr("rows=8"));
}

TEST(GemvDequantCpuFamily, RefusalsSayWhy) {
  const DeviceSpec device = test::cpu_device("x86-64-v4");
  for (const auto& [text, why] : {std::pair{"m=17:n=64:k=64:b=u4", "M = 17, allowed: at most 16"},
                                  {"m=1:n=64:k=64:b=u4:layout=rrr", "[N, K] with K contiguous"},
                                  {"m=1:n=64:k=64:b=i8:packed=1", "B is packed"},
                                  {"m=1:n=64:k=65:b=u4", "rows of half bytes"},
                                  {"m=1:n=64:k=64:b=u4:scale_b=f16.1x16", "f16.1x16, allowed: groups of 32, 64 or 128"},
                                  {"m=1:n=64:k=64:b=u4:scale_a=f32.1x64", "A has scales of groups"},
                                  {"m=1:n=64:k=64:a=bf16", "A is bf16 and B bf16, allowed: f16 or bf16 x i4, u4"},
                                  {"m=1:n=64:k=64:a=e4m3:b=e2m1", "A is e4m3"},
                                  {"m=1:n=64:k=64:b=u4:batch_invariant=1", "batch_invariant"}}) {
    const Status status = gemv_dequant_cpu_family().supports(erase(problem(text)), device);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << text;
    EXPECT_THAT(status.message(), HasSubstr(why)) << text;
  }
  EXPECT_FALSE(
      gemv_dequant_cpu_family().supports(erase(problem("m=1:n=64:k=64:b=u4")), test::cpu_device("x86-64")).ok());
}

}  // namespace
}  // namespace tilewright
