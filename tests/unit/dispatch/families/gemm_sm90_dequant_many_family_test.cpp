// SPDX-License-Identifier: MIT
// gemm_sm90_dequant_many asked without a GPU: what it refuses, what it chooses, the launches that it makes, and which tile comes when.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "core/fields.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_many_args.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using test::problem;
using testing::HasSubstr;

DeviceSpec many_gpu() {
  DeviceSpec device = test::cuda_device("sm_90a", 132);
  device.part = "h200";
  return device;
}
std::string many_refusal(const std::string& text) {
  return gemm_sm90_dequant_many_family().supports(erase(problem(text)), many_gpu()).message();
}
GemmSm90DequantConfig many_config(const RecipeStep& step) {
  GemmSm90DequantConfig c{};
  EXPECT_TRUE(parse_fields(step.key.config(), c).ok());
  return c;
}
std::vector<Stage> stages_of(const GemmProblem& p, const RecipeStep& step) {
  Result<std::vector<Stage>> stages = gemm_sm90_dequant_many_family().stages(erase(p), many_gpu(), step, nullptr);
  EXPECT_TRUE(stages.ok()) << stages.status().message();
  return stages.ok() ? *stages : std::vector<Stage>{};
}
GemmSm90DequantManyArgs args_of(const Stage& stage) {
  GemmSm90DequantManyArgs args;
  EXPECT_EQ(stage.args.size(), sizeof(args));
  std::memcpy(&args, stage.args.data(), sizeof(args));
  return args;
}

TEST(GemmSm90DequantManyFamily, WhatItCannotDoIsRefusedWithTheReason) {
  EXPECT_EQ(many_refusal("m=4096:n=4096:k=4096:a=bf16:b=i4:scale_b=f16.1x128"), "");
  EXPECT_EQ(many_refusal("m=1:n=33:k=64:a=f16:b=e4m3:batch=3"), "");
  EXPECT_THAT(many_refusal("m=256:n=4096:k=4096:a=bf16"), HasSubstr("A and B are bf16, the kernel widens B"));
  EXPECT_THAT(many_refusal("m=256:n=64:k=4096:a=bf16:b=e4m3:batch_invariant=1"), HasSubstr("batch_invariant"));
  EXPECT_THAT(many_refusal("m=256:n=64:k=4096:a=bf16:b=e4m3:c=bf16"), HasSubstr("the epilogue has C"));
  EXPECT_THAT(many_refusal("m=256:n=64:k=4128:a=bf16:b=u4:packed=fragments"), HasSubstr("K = 4128 of packed u4"));
  EXPECT_THAT(many_refusal("m=2000000000:n=4096:k=64:a=bf16:b=e4m3"), HasSubstr("more than 2^31 tiles"));
  DeviceSpec older = many_gpu();
  older.arch = find_arch("sm_80");
  EXPECT_THAT(
      gemm_sm90_dequant_many_family().supports(erase(problem("m=256:n=64:k=64:a=bf16:b=e4m3")), older).message(),
      HasSubstr("sm_80 has no wgmma for bf16"));
}

TEST(GemmSm90DequantManyFamily, EveryCandidateIsLegalAndFitsAMultiprocessor) {
  for (const char* text :
       {"m=4096:n=8192:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128",
        "m=300:n=4096:k=4096:a=f16:b=u4:scale_b=f32.1x64:zero_b=u4",
        "m=129:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32",
        "m=1000:n=8192:k=4096:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu",
        "m=1000:n=8192:k=4096:a=bf16:b=i8:scale_b=f32", "m=257:n=515:k=1040:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8"}) {
    SCOPED_TRACE(text);
    const GemmProblem p = problem(text);
    const KernelFamily& family = gemm_sm90_dequant_many_family();
    const std::vector<Candidate> found = family.candidates(erase(p), many_gpu());
    ASSERT_FALSE(found.empty());
    for (const Candidate& candidate : found) {
      const Status status = family.check(erase(p), many_gpu(), candidate.step);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_DOUBLE_EQ(candidate.cost, family.cost(erase(p), many_gpu(), candidate.step));
      const GemmSm90DequantConfig c = many_config(candidate.step);
      EXPECT_LE(gemm_sm90_dequant_shared_bytes(c), find_arch("sm_90a")->shared_bytes);
      const std::vector<Stage> stages = stages_of(p, candidate.step);
      ASSERT_EQ(stages.size(), 1u);
      const GemmSm90DequantManyArgs args = args_of(stages.front());
      EXPECT_EQ(args.first, 0);
      EXPECT_EQ(args.pieces, (p.m + c.tokens - 1) / c.tokens);
      EXPECT_GE(args.raster, 1);
      EXPECT_LE(stages.front().shape.grid[0], 132u);
      EXPECT_EQ(stages.front().shape.cooperative, !gemm_sm90_dequant_in_order(c));
    }
  }
}

TEST(GemmSm90DequantManyFamily, ManyRowsTakeWideTiles) {
  const GemmProblem p = problem("m=4096:n=8192:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128");
  EXPECT_EQ(many_config(gemm_sm90_dequant_many_family().candidates(erase(p), many_gpu()).front().step).tokens, 128);
}

TEST(GemmSm90DequantManyFamily, KnobsAndPartsThatItHasNotAreRefused) {
  const GemmProblem p = problem("m=4096:n=8192:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128");
  RecipeStep step = gemm_sm90_dequant_many_family().candidates(erase(p), many_gpu()).front().step;
  step.knobs.values[0] = -1;
  EXPECT_THAT(gemm_sm90_dequant_many_family().check(erase(p), many_gpu(), step).message(), HasSubstr("raster = -1"));
  GemmSm90DequantConfig c = many_config(step);
  c.splits = 2;
  EXPECT_THAT(gemm_sm90_dequant_many_refusal(c), HasSubstr("splits is not 1"));
}

// A launch rearranges no more of A than the workspace holds; each row is some launch's.
TEST(GemmSm90DequantManyFamily, RowsBeyondTheWorkspaceAreAnotherLaunchs) {
  const GemmProblem p = problem("m=20001:n=1024:k=28672:a=bf16:b=e2m1:scale_b=e8m0.1x32");
  for (const Candidate& candidate : gemm_sm90_dequant_many_family().candidates(erase(p), many_gpu())) {
    const GemmSm90DequantConfig c = many_config(candidate.step);
    const int64_t bytes = gemm_sm90_dequant_many_family().workspace_bytes(erase(p), many_gpu(), candidate.step);
    EXPECT_LE(bytes, int64_t{256} << 20);
    int next = 0;
    const std::vector<Stage> stages = stages_of(p, candidate.step);
    EXPECT_GT(stages.size(), 3u);
    for (const Stage& stage : stages) {
      const GemmSm90DequantManyArgs args = args_of(stage);
      EXPECT_EQ(args.first, next);
      EXPECT_LE(args.pieces * int64_t{28672} * 2 * c.tokens, bytes);
      next += args.pieces;
    }
    EXPECT_EQ(next, (20001 + c.tokens - 1) / c.tokens);
  }
}

TEST(GemmSm90DequantManyFamily, EveryTileHasOneNumber) {
  for (const auto& [batches, tiles, pieces] : {std::tuple{1u, 1u, 1u}, {1u, 7u, 5u}, {3u, 4u, 6u}, {2u, 1u, 9u}}) {
    for (const unsigned raster : {1u, 2u, 4u, 100u}) {
      std::set<std::tuple<int, int, int>> seen;
      for (unsigned at = 0; at < batches * tiles * pieces; ++at) {
        const DequantManyTile tile = dequant_many_tile(at, tiles, pieces, raster);
        EXPECT_TRUE(seen.insert({tile.batch, tile.tile, tile.piece}).second);
        EXPECT_LT(tile.batch, static_cast<int>(batches));
        EXPECT_LT(tile.tile, static_cast<int>(tiles));
        EXPECT_LT(tile.piece, static_cast<int>(pieces));
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
