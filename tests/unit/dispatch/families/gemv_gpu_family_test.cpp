// SPDX-License-Identifier: MIT
// gemv_gpu asked without a GPU: what it refuses, what it chooses, how it launches.
#include <gmock/gmock.h>

#include "core/fields.hpp"
#include "gemm/portable/gemv_gpu_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::HasSubstr;

DeviceSpec gpu() { return test::cuda_device("sm_90a", 132); }
std::string refusal(const std::string& text) {
  return gemv_gpu_family().supports(erase(problem(text)), gpu()).message();
}
RecipeStep best(const std::string& text) {
  const GemmProblem p = problem(text);
  const std::vector<Candidate> found = gemv_gpu_family().candidates(erase(p), gpu());
  EXPECT_FALSE(found.empty()) << text;
  return found.empty() ? RecipeStep{} : found.front().step;
}

TEST(GemvGpuFamily, WhatItsLoadsCannotReadIsRefusedWithTheReason) {
  EXPECT_EQ(refusal("m=8:n=4096:k=4096:a=bf16"), "");
  EXPECT_EQ(refusal("m=1:n=33:k=8:a=f16:batch=3"), "");
  EXPECT_THAT(refusal("m=9:n=4096:k=4096:a=bf16"), HasSubstr("M = 9, allowed: at most 8"));
  EXPECT_THAT(refusal("m=1:n=4096:k=4100:a=bf16"), HasSubstr("b: the kernel wants rows along K"));
  EXPECT_THAT(refusal("m=1:n=1:k=4100:a=bf16"), HasSubstr("K = 4100: the kernel wants whole pieces of 16 bytes"));
  EXPECT_THAT(refusal("m=1:n=4096:k=4096:a=bf16:layout=rrr"), HasSubstr("b: the kernel wants rows along K"));
  EXPECT_THAT(refusal("m=2:n=64:k=64:a=bf16:align=8.16.16"), HasSubstr("a: the kernel wants rows along K"));
  EXPECT_THAT(refusal("m=1:n=64:k=64:a=f32"), HasSubstr("dtype is none of bf16, f16, i8"));
  EXPECT_THAT(refusal("m=1:n=64:k=64:a=bf16:batch_invariant=1"), HasSubstr("batch_invariant"));
  EXPECT_THAT(refusal("m=1:n=64:k=0:a=bf16"), HasSubstr("K = 0"));
  DeviceSpec cpu;
  cpu.arch = find_arch("x86-64-v3");
  EXPECT_THAT(gemv_gpu_family().supports(erase(problem("m=1:n=64:k=64:a=bf16")), cpu).message(),
              HasSubstr("x86-64-v3 is no NVIDIA GPU"));
}

TEST(GemvGpuFamily, EveryCandidateIsLegalAndItsSourceCanBeMade) {
  for (const char* text : {"m=1:n=4096:k=4096:a=bf16", "m=8:n=24576:k=1536:a=f16:bias=f32", "m=2:n=8:k=16:a=i8",
                           "m=1:n=8192:k=4096:a=bf16:gate=separated:act=silu:c=bf16"}) {
    const GemmProblem p = problem(text);
    for (const Candidate& candidate : gemv_gpu_family().candidates(erase(p), gpu())) {
      const Status status = gemv_gpu_family().check(erase(p), gpu(), candidate.step);
      EXPECT_TRUE(status.ok()) << text << ": " << status.message();
      EXPECT_GT(candidate.cost, 0);
      EXPECT_EQ(gemv_gpu_family().workspace_bytes(erase(p), gpu(), candidate.step), 0);
      EXPECT_TRUE(gemv_gpu_family().source(candidate.step.key).ok());
    }
  }
}

TEST(GemvGpuFamily, ShortRowsGetBlocksThatBringLessOfThem) {
  const auto step_bytes = [](const char* text) {
    GemvGpuConfig c{};
    EXPECT_TRUE(parse_fields(best(text).key.config(), c).ok());
    return c.warps * c.depth * kGemvLineBytes;
  };
  EXPECT_EQ(step_bytes("m=1:n=4096:k=14336:a=bf16"), 2048);
  EXPECT_EQ(step_bytes("m=1:n=24576:k=1536:a=bf16"), 1024);
}

TEST(GemvGpuFamily, ALaunchHasABlockForEveryRowsOfEveryMatrix) {
  const GemmProblem p = problem("m=3:n=100:k=64:a=bf16:batch=5");
  const RecipeStep step = best("m=3:n=100:k=64:a=bf16:batch=5");
  const Result<std::vector<Stage>> stages = gemv_gpu_family().stages(erase(p), gpu(), step, nullptr);
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  ASSERT_EQ(stages->size(), 1u);
  EXPECT_EQ(stages->front().shape.grid[0], 7u * 5u);
  EXPECT_TRUE(stages->front().shape.programmatic_edge);
}

TEST(GemvGpuFamily, AKernelOfAnotherProblemIsRefused) {
  const RecipeStep step = best("m=1:n=64:k=64:a=bf16");
  const auto check = [&](const char* text) {
    return gemv_gpu_family().check(erase(problem(text)), gpu(), step).message();
  };
  EXPECT_EQ(check("m=8:n=99:k=128:a=bf16"), "");
  EXPECT_THAT(check("m=1:n=64:k=64:a=f16"), HasSubstr("kernel takes bf16, the problem is f16"));
  EXPECT_THAT(check("m=1:n=64:k=64:a=bf16:act=relu"), HasSubstr("epilogue"));
  EXPECT_THAT(check("m=1:n=64:k=64:a=bf16:gate=separated"), HasSubstr("epilogue"));
}

}  // namespace
}  // namespace tilewright
