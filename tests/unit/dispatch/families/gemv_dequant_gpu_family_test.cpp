// SPDX-License-Identifier: MIT
// gemv_dequant_gpu asked without a GPU: what it refuses, what it chooses, that tiles and slices of K cover the problem, and that
// it goes first where weights are few bits and rows of A few.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/fields.hpp"
#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::HasSubstr;

DeviceSpec hopper() {
  DeviceSpec device = test::cuda_device("sm_90a", 132);
  device.part = "h200";
  return device;
}
std::string refusal_of(const std::string& text, const DeviceSpec& device = hopper()) {
  return gemv_dequant_gpu_family().supports(erase(problem(text)), device).message();
}

constexpr const char* kInt4 = ":a=bf16:b=i4:scale_b=f16.1x128";

TEST(GemvDequantGpuFamily, WhatItCannotDoIsRefusedWithTheReason) {
  EXPECT_EQ(refusal_of(std::string("m=16:n=4096:k=4096") + kInt4), "");
  EXPECT_EQ(refusal_of("m=1:n=33:k=64:a=f16:b=e4m3:batch=3"), "");
  EXPECT_EQ(refusal_of("m=1:n=64:k=4096:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4:c=bf16"), "");
  EXPECT_EQ(refusal_of(std::string("m=1:n=64:k=4096") + kInt4, test::cuda_device("sm_80", 108)), "");
  EXPECT_THAT(refusal_of(std::string("m=17:n=4096:k=4096") + kInt4), HasSubstr("M = 17, allowed: at most 16"));
  EXPECT_THAT(refusal_of("m=1:n=64:k=4096:a=bf16"), HasSubstr("A and B are bf16, the kernel widens B"));
  EXPECT_THAT(refusal_of("m=1:n=64:k=4096:a=e4m3:b=e2m1:scale_b=e8m0.1x32"), HasSubstr("dtype is none of bf16, f16"));
  EXPECT_THAT(refusal_of("m=1:n=64:k=4096:a=bf16:b=e2m1:scale_b=f32.128x128"), HasSubstr("scales of 128 columns"));
  EXPECT_THAT(refusal_of("m=1:n=64:k=4096:a=bf16:b=e2m1:scale_b=e4m3.1x16"), HasSubstr("group is none of"));
  EXPECT_THAT(refusal_of("m=1:n=64:k=4096:a=bf16:scale_a=f32.1x128:b=e2m1"), HasSubstr("A has scales of groups"));
  EXPECT_THAT(refusal_of("m=1:n=64:k=4096:a=bf16:b=u4:scale_b=f16.1x128:zero_b=f16"),
              HasSubstr("zero points have neither"));
  EXPECT_THAT(refusal_of(std::string("m=1:n=64:k=4104:sb=0.1.4128:sa=0.4104.1") + kInt4),
              HasSubstr("K = 4104, allowed: multiples of 32"));
  EXPECT_THAT(refusal_of(std::string("m=1:n=64:k=4096:layout=rrr") + kInt4), HasSubstr("b: the kernel wants rows"));
  EXPECT_THAT(refusal_of(std::string("m=1:n=64:k=64:batch_invariant=1") + kInt4), HasSubstr("batch_invariant"));
  EXPECT_THAT(refusal_of(std::string("m=2:n=64:k=64:sa=0.2147483648.1") + kInt4),
              HasSubstr("a stride of 2147483648, allowed"));
}

TEST(GemvDequantGpuFamily, EveryCandidateIsLegalAndCoversAllTilesAndAllOfK) {
  for (const char* text :
       {"m=1:n=4096:k=4096:a=bf16:b=i4:scale_b=f16.1x128", "m=16:n=8192:k=28672:a=bf16:b=i4:scale_b=f16.1x128",
        "m=3:n=2112:k=7168:a=f16:b=e4m3", "m=8:n=57344:k=8192:a=f16:b=u4:scale_b=f32.1x64:zero_b=u4",
        "m=1:n=4096:k=1040:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8",
        "m=4:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=128", "m=1:n=1:k=32:a=bf16:b=i4",
        "m=1:n=8190:k=4096:a=bf16:b=i4:scale_b=f16.1x32:gate=separated:act=silu"}) {
    const GemmProblem p = problem(text);
    const std::vector<Candidate> found = gemv_dequant_gpu_family().candidates(erase(p), hopper());
    ASSERT_FALSE(found.empty()) << text;
    for (const Candidate& candidate : found) {
      const Status status = gemv_dequant_gpu_family().check(erase(p), hopper(), candidate.step);
      EXPECT_TRUE(status.ok()) << text << ": " << status.message();
      EXPECT_TRUE(gemv_dequant_gpu_family().source(candidate.step.key).ok());
      EXPECT_GT(candidate.cost, 0);
      GemvDequantGpuConfig c{};
      ASSERT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
      EXPECT_GE(c.tokens, p.m);
      const Result<std::vector<Stage>> stages =
          gemv_dequant_gpu_family().stages(erase(p), hopper(), candidate.step, nullptr);
      ASSERT_TRUE(stages.ok()) << stages.status().message();
      GemvDequantGpuCut cut;
      std::memcpy(&cut, stages->front().args.data() + offsetof(GemvDequantGpuArgs, cut), sizeof(cut));
      EXPECT_EQ(int64_t{cut.share} * stages->front().shape.grid[0] + cut.extra, int64_t{cut.of_batch} * p.batch);
      EXPECT_GE(int64_t{cut.of_batch} * c.rows, p.n);
      EXPECT_GE(int64_t{cut.slices} * cut.steps * gemv_dequant_gpu_step_k(c), p.k);
      EXPECT_LE(cut.steps, c.steps);
      EXPECT_LE(stages->front().shape.shared_bytes, gemv_dequant_gpu_family().launch_shared_bytes(candidate.step.key));
    }
  }
}

TEST(GemvDequantGpuFamily, AKernelOfAnotherProblemIsRefused) {
  const GemmProblem p = problem(std::string("m=2:n=4096:k=4096") + kInt4);
  const RecipeStep step = gemv_dequant_gpu_family().candidates(erase(p), hopper()).front().step;
  const auto check = [&](const std::string& text) {
    return gemv_dequant_gpu_family().check(erase(problem(text)), hopper(), step).message();
  };
  EXPECT_EQ(check(std::string("m=1:n=96:k=64") + kInt4), "");
  EXPECT_THAT(check(std::string("m=3:n=96:k=64") + kInt4), HasSubstr("M = 3, the kernel takes 2"));
  EXPECT_THAT(check("m=1:n=96:k=64:a=bf16:b=u4:scale_b=f16.1x128"), HasSubstr("kernel widens i4, B is u4"));
  EXPECT_THAT(check("m=1:n=96:k=64:a=bf16:b=i4:scale_b=f16.1x64"), HasSubstr("scales f16 of 128 values"));
  EXPECT_THAT(check("m=1:n=96:k=64:a=bf16:b=i4:scale_b=f16.1x128:zero_b=i4"), HasSubstr("zero points none, B has i4"));
}

TEST(GemvDequantGpuFamily, OneRowOfAGoesHereFirstAndManyDoNot) {
  const auto cheapest = [](const KernelFamily& family, const std::string& text) {
    return family.candidates(erase(problem(text)), hopper()).front().cost;
  };
  for (const char* sizes : {"m=1:n=10240:k=8192", "m=1:n=57344:k=8192", "m=1:n=8192:k=28672"}) {
    const std::string text = std::string(sizes) + kInt4;
    EXPECT_LT(cheapest(gemv_dequant_gpu_family(), text), cheapest(gemm_sm90_dequant_family(), text)) << text;
  }
  const std::string many = std::string("m=16:n=8192:k=28672") + kInt4;
  EXPECT_GT(cheapest(gemv_dequant_gpu_family(), many), cheapest(gemm_sm90_dequant_family(), many));
}

}  // namespace
}  // namespace tilewright
