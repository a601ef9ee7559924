// SPDX-License-Identifier: MIT
// gemv_dequant_packed_cpu asked about CPUs that need not be here, and who else takes packed weights of 4 bits.
#include <gmock/gmock.h>

#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(GemvDequantPackedCpuFamily, TheBestInstructionOfTheTargetIsFirst) {
  for (const char* mode : {"b=u4:scale_b=f16.1x128:zero_b=u4", "b=e2m1:scale_b=e8m0.1x32", "b=i8:scale_b=f32"}) {
    const GemmProblem p = test::problem(("m=1:n=4096:k=4096:packed=1:" + std::string(mode)).c_str());
    for (const auto& [target, first] : {std::pair{"x86-64-v4-bf16", "mma=dot_i8_vnni:rows=1:panels=2"},
                                        {"x86-64-v4", "mma=fma_avx512:rows=1"},
                                        {"x86-64-v3", "mma=fma_avx2:rows=1"}}) {
      const DeviceSpec device = test::cpu_device(target);
      ASSERT_TRUE(gemv_dequant_packed_cpu_family().supports(erase(p), device).ok()) << mode;
      const std::vector<Candidate> found = gemv_dequant_packed_cpu_family().candidates(erase(p), device);
      ASSERT_FALSE(found.empty());
      EXPECT_THAT(std::string(found.front().step.key.config()), HasSubstr(first)) << mode;
    }
  }
}

TEST(GemvDequantPackedCpuFamily, RefusalsSayWhy) {
  const DeviceSpec device = test::cpu_device("x86-64-v4");
  for (const auto& [text, why] : {std::pair{"m=1:n=64:k=64:b=u4", "B is plain, allowed: packed"},
                                  {"m=1:n=64:k=64:b=u4:packed=1:scale_b=f16.1x16", "allowed: groups of 32, 64 or 128"},
                                  {"m=1:n=64:k=64:b=u4:packed=1:scale_a=f32.1x64", "A has scales of groups"},
                                  {"m=1:n=64:k=64:a=bf16:packed=1", "A is bf16 and B bf16"},
                                  {"m=1:n=64:k=64:b=u4:packed=1:batch_invariant=1", "batch_invariant"}}) {
    const Status status = gemv_dequant_packed_cpu_family().supports(erase(test::problem(text)), device);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << text;
    EXPECT_THAT(status.message(), HasSubstr(why)) << text;
  }
}

TEST(GemvDequantPackedCpuFamily, GpusRefusePackedWeightsOfFourBits) {
  const GemmProblem p = test::problem("m=1:n=64:k=64:b=u4:packed=1");
  for (const char* target : {"sm_90a", "gfx942"}) {
    DeviceSpec device;
    device.arch = find_arch(target);
    device.targets.push_back(device.arch);
    for (const KernelFamily* family :
         {&gemm_generic_gpu_family(), &gemm_amd_family(), &gemv_amd_family(), &gemm_sm90_dequant_family()}) {
      EXPECT_FALSE(family->supports(erase(p), device).ok()) << target << " " << family->name();
    }
    EXPECT_THAT(gemm_generic_gpu_family().supports(erase(p), device).message(), HasSubstr("CPUs read it"));
  }
}

TEST(GemvDequantPackedCpuFamily, OnlyNvidiaGpusTakeWhatTheyPack) {
  const GemmProblem p = test::problem("m=1:n=64:k=64:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32");
  const DeviceSpec cpu = test::cpu_device("x86-64-v4");
  for (const KernelFamily* family : {&gemm_generic_family(), &gemv_dequant_packed_cpu_family()}) {
    EXPECT_THAT(family->supports(erase(p), cpu).message(), HasSubstr("as NVIDIA GPUs read it")) << family->name();
  }
  DeviceSpec gpu;
  gpu.arch = find_arch("gfx942");
  gpu.targets.push_back(gpu.arch);
  EXPECT_THAT(gemm_generic_gpu_family().supports(erase(p), gpu).message(),
              HasSubstr("NVIDIA GPUs read it, not gfx942"));
}

}  // namespace
}  // namespace tilewright
