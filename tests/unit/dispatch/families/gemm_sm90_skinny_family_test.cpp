// SPDX-License-Identifier: MIT
// gemm_sm90_skinny asked without a GPU: what it refuses, what it chooses, how its clusters share the work.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/fields.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::HasSubstr;

DeviceSpec gpu() {
  DeviceSpec device = test::cuda_device("sm_90a", 132);
  device.part = "h200";
  return device;
}
std::string refusal(const std::string& text) {
  return gemm_sm90_skinny_family().supports(erase(problem(text)), gpu()).message();
}
GemmSm90SkinnyConfig config_of(const RecipeStep& step) {
  GemmSm90SkinnyConfig c{};
  EXPECT_TRUE(parse_fields(step.key.config(), c).ok());
  return c;
}

TEST(GemmSm90SkinnyFamily, WhatItCannotDoIsRefusedWithTheReason) {
  EXPECT_EQ(refusal("m=128:n=4096:k=4096:a=bf16"), "");
  EXPECT_EQ(refusal("m=3:n=33:k=8:a=i8:batch=3:sa=16.16.1:sb=1600.1.16"), "");
  EXPECT_THAT(refusal("m=129:n=4096:k=4096:a=bf16"), HasSubstr("M = 129, allowed: at most 128"));
  EXPECT_THAT(refusal("m=64:n=4096:k=4097:a=bf16"), HasSubstr("a: the copy engine wants rows along K"));
  EXPECT_THAT(refusal("m=64:n=4096:k=4096:a=bf16:layout=rrr"), HasSubstr("b: the copy engine wants rows along K"));
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16:c=bf16"), HasSubstr("the epilogue has C"));
  EXPECT_THAT(refusal("m=64:n=64:k=64:a=bf16:batch_invariant=1"), HasSubstr("batch_invariant"));
  EXPECT_NE(refusal("m=64:n=64:k=64:a=f32"), "");
  DeviceSpec older = gpu();
  older.arch = find_arch("sm_80");
  EXPECT_THAT(gemm_sm90_skinny_family().supports(erase(problem("m=1:n=64:k=64:a=bf16")), older).message(),
              HasSubstr("sm_80 has no wgmma for bf16"));
}

TEST(GemmSm90SkinnyFamily, EveryCandidateIsLegalHoldsMAndCoversAllOfK) {
  for (const char* text : {"m=1:n=4096:k=4096:a=bf16", "m=16:n=2112:k=7168:a=f16", "m=33:n=64:k=64:a=bf16:batch=7",
                           "m=128:n=57344:k=8192:a=bf16", "m=100:n=7168:k=2048:a=i8:scale_a=f32",
                           "m=64:n=8192:k=4096:a=bf16:gate=separated:act=silu"}) {
    const GemmProblem p = problem(text);
    const std::vector<Candidate> found = gemm_sm90_skinny_family().candidates(erase(p), gpu());
    ASSERT_FALSE(found.empty()) << text;
    for (const Candidate& candidate : found) {
      const Status status = gemm_sm90_skinny_family().check(erase(p), gpu(), candidate.step);
      EXPECT_TRUE(status.ok()) << text << ": " << status.message();
      EXPECT_TRUE(gemm_sm90_skinny_family().source(candidate.step.key).ok());
      EXPECT_GT(candidate.cost, 0);
      const GemmSm90SkinnyConfig c = config_of(candidate.step);
      EXPECT_GE(c.tokens, p.m);
      const GemmSm90SkinnyCut cut = gemm_sm90_skinny_cut(c, p.n, p.k, p.batch, gpu().units);
      const int64_t parts = c.splits > 0 ? c.splits : cut.clusters;
      EXPECT_EQ(cut.share * parts + cut.extra, c.splits > 0 ? cut.chunks : cut.steps);
      EXPECT_GT(cut.share, 0) << "a part without work";
      EXPECT_LE(cut.clusters * gemm_sm90_skinny_sharers(c), gpu().units * c.blocks)
          << "clusters that wait for each other must all run, and parts that meet win nothing in a second round";
    }
  }
}

TEST(GemmSm90SkinnyFamily, OnlyPartsThatDoNotMeetTakeZerosAndTheyHoldEverySum) {
  const GemmProblem p = problem("m=128:n=4096:k=4096:a=bf16");
  int meetings = 0;
  for (const Candidate& candidate : gemm_sm90_skinny_family().candidates(erase(p), gpu())) {
    const Result<std::vector<Stage>> stages =
        gemm_sm90_skinny_family().stages(erase(p), gpu(), candidate.step, nullptr);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    const Stage& stage = stages->front();
    const GemmSm90SkinnyConfig c = config_of(candidate.step);
    const int64_t columns = c.rows * gemm_sm90_skinny_sharers(c);
    const int64_t parts = c.splits == 0 ? stage.shape.grid[0] / c.cluster : (4096 + columns - 1) / columns * c.splits;
    const bool meet = gemm_sm90_skinny_parts_meet(c), waits = c.splits != 1 && !meet;
    EXPECT_EQ(stage.zero_bytes, waits ? parts * columns * c.tokens * 4 : 0);
    if (meet) {
      EXPECT_EQ(stage.shape.grid[0], parts) << "a block a part";
    }
    const auto zeros = std::count_if(stage.patches.begin(), stage.patches.end(),
                                     [](const ArgPatch& patch) { return patch.kind == ArgPatch::Kind::kZeros; });
    EXPECT_EQ(zeros, waits ? 1 : 0);
    meetings += meet ? 1 : 0;
    EXPECT_EQ(stage.tensor_maps.size(), 2u);
    EXPECT_EQ(stage.shape.cluster[0], static_cast<uint32_t>(c.cluster));
    EXPECT_TRUE(stage.shape.programmatic_edge);
    EXPECT_EQ(stage.shape.cooperative, waits) << "blocks that wait for each other must all run";
  }
  EXPECT_GT(meetings, 0);
}

TEST(GemmSm90SkinnyFamily, FewColumnsShareTheirKAndManyDoNot) {
  const auto splits = [](const char* text) {
    return config_of(gemm_sm90_skinny_family().candidates(erase(problem(text)), gpu()).front().step).splits;
  };
  EXPECT_NE(splits("m=16:n=2112:k=7168:a=bf16"), 1);
  EXPECT_EQ(splits("m=64:n=32768:k=512:a=bf16"), 1);
}

TEST(GemmSm90SkinnyFamily, AKernelOfAnotherProblemIsRefused) {
  const GemmProblem p = problem("m=16:n=4096:k=4096:a=bf16");
  const auto step_of = [&](int splits) {
    const std::vector<Candidate> found = gemm_sm90_skinny_family().candidates(erase(p), gpu());
    const auto has = [&](const Candidate& candidate) { return config_of(candidate.step).splits == splits; };
    return std::ranges::find_if(found, has)->step;
  };
  RecipeStep step = step_of(1);
  const auto check = [&](const char* text) {
    return gemm_sm90_skinny_family().check(erase(problem(text)), gpu(), step).message();
  };
  EXPECT_THAT(check("m=17:n=4096:k=4096:a=bf16"), HasSubstr("M = 17, the kernel takes 16"));
  EXPECT_THAT(check("m=16:n=4096:k=4096:a=f16"), HasSubstr("kernel takes bf16, the problem is f16"));
  EXPECT_THAT(check("m=16:n=4096:k=4096:a=bf16:act=relu"), HasSubstr("epilogue"));
  step = step_of(2);
  EXPECT_THAT(check("m=16:n=4096:k=64:a=bf16"), HasSubstr("splits = 2: K = 64 has 1 steps of the kernel"));
}

}  // namespace
}  // namespace tilewright
