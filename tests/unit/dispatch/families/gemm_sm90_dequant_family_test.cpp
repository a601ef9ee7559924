// SPDX-License-Identifier: MIT
// gemm_sm90_dequant asked without a GPU: what it refuses, what it chooses, and that weights and A have the same K in every
// place of every product.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/fields.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
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
  return gemm_sm90_dequant_family().supports(erase(problem(text)), gpu()).message();
}
GemmSm90DequantConfig config_of(const RecipeStep& step) {
  GemmSm90DequantConfig c{};
  EXPECT_TRUE(parse_fields(step.key.config(), c).ok());
  return c;
}

constexpr const char* kMxfp4 = ":a=bf16:b=e2m1:scale_b=e8m0.1x32";

TEST(GemmSm90DequantFamily, WhatItCannotDoIsRefusedWithTheReason) {
  EXPECT_EQ(refusal(std::string("m=128:n=4096:k=4096") + kMxfp4), "");
  EXPECT_EQ(refusal("m=3:n=33:k=64:a=f16:b=e4m3:batch=3"), "");
  EXPECT_EQ(refusal("m=3:n=33:k=64:a=bf16:b=e5m2:scale_b=f16.1x128:bias=f32:act=gelu"), "");
  EXPECT_THAT(refusal(std::string("m=129:n=4096:k=4096") + kMxfp4),
              HasSubstr("M = 129, allowed with this gate: at most 128"));
  EXPECT_THAT(refusal("m=65:n=64:k=4096:a=bf16:b=e5m2:scale_b=f32.1x128:gate=separated:act=silu"),
              HasSubstr("at most 64"));
  EXPECT_THAT(refusal("m=16:n=4096:k=4096:a=bf16"), HasSubstr("A and B are bf16, the kernel widens B"));
  EXPECT_THAT(refusal("m=16:n=64:k=4096:a=e4m3:b=e2m1:scale_b=e8m0.1x32"), HasSubstr("dtype is none of bf16, f16"));
  EXPECT_EQ(refusal("m=16:n=64:k=4096:a=bf16:b=e2m1:scale_b=f32.128x128"), "");
  EXPECT_THAT(refusal("m=16:n=64:k=4096:a=bf16:b=e2m1:scale_b=e4m3.1x16"), HasSubstr("group is none of"));
  EXPECT_THAT(refusal("m=16:n=64:k=4096:a=bf16:scale_a=f32.1x128:b=e2m1"), HasSubstr("A has scales of groups"));
  EXPECT_THAT(refusal(std::string("m=64:n=4096:k=4112") + kMxfp4), HasSubstr("b: the kernel wants rows along K"));
  EXPECT_THAT(refusal(std::string("m=64:n=4096:k=4096:layout=rrr") + kMxfp4), HasSubstr("b: the kernel wants rows"));
  EXPECT_THAT(refusal(std::string("m=64:n=64:k=64:c=bf16") + kMxfp4), HasSubstr("the epilogue has C"));
  EXPECT_THAT(refusal(std::string("m=64:n=64:k=64:batch_invariant=1") + kMxfp4), HasSubstr("batch_invariant"));
  EXPECT_THAT(refusal("m=1:n=64:k=4096:a=bf16:b=u4:scale_b=f16.1x128:zero_b=f16"),
              HasSubstr("zero points have neither"));
  EXPECT_THAT(refusal("m=1:n=64:k=4096:a=bf16:b=e2m1:packed=fragments:scale_b=f16.1x128"),
              HasSubstr("packed weights are neither i4 or u4 nor take their scales along"));
  EXPECT_EQ(refusal("m=1:n=64:k=4160:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"), "");
  EXPECT_THAT(refusal("m=1:n=64:k=4128:a=bf16:b=u4:packed=fragments"),
              HasSubstr("K = 4128 of packed u4, allowed: multiples of 64"));
  EXPECT_THAT(refusal("m=1:n=192:k=4096:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated:act=silu"),
              HasSubstr("N = 192 of packed gate and up, allowed: multiples of 128"));
  DeviceSpec older = gpu();
  older.arch = find_arch("sm_80");
  EXPECT_THAT(
      gemm_sm90_dequant_family().supports(erase(problem(std::string("m=1:n=64:k=64") + kMxfp4)), older).message(),
      HasSubstr("sm_80 has no wgmma for bf16"));
}

TEST(GemmSm90DequantFamily, EveryCandidateIsLegalHoldsMAndCoversAllOfK) {
  for (const char* text :
       {"m=1:n=4096:k=4096:a=bf16:b=e2m1:scale_b=e8m0.1x32", "m=16:n=2112:k=7168:a=f16:b=e4m3",
        "m=16:n=4096:k=4096:a=bf16:b=i4:scale_b=f16.1x128", "m=64:n=4096:k=4096:a=f16:b=u4:scale_b=f32.1x64:zero_b=u4",
        "m=1:n=4096:k=4096:a=bf16:b=i8:scale_b=f16.1x128:zero_b=i8",
        "m=33:n=64:k=64:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=7", "m=64:n=57344:k=8192:a=bf16:b=e4m3:scale_b=f32",
        "m=60:n=7168:k=2048:a=bf16:b=e5m2:scale_b=f32.1x128",
        "m=16:n=8192:k=4096:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu",
        "m=33:n=5760:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:batch=128",
        "m=16:n=8192:k=8192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128"}) {
    const GemmProblem p = problem(text);
    const std::vector<Candidate> found = gemm_sm90_dequant_family().candidates(erase(p), gpu());
    ASSERT_FALSE(found.empty()) << text;
    for (const Candidate& candidate : found) {
      const Status status = gemm_sm90_dequant_family().check(erase(p), gpu(), candidate.step);
      EXPECT_TRUE(status.ok()) << text << ": " << status.message();
      EXPECT_TRUE(gemm_sm90_dequant_family().source(candidate.step.key).ok());
      EXPECT_GT(candidate.cost, 0);
      const GemmSm90DequantConfig c = config_of(candidate.step);
      EXPECT_GE(c.tokens, p.m);
      const GemmSm90SkinnyCut cut = gemm_sm90_skinny_cut(gemm_sm90_dequant_sums(c), p.n, p.k, p.batch, gpu().units);
      EXPECT_GE(cut.chunks * gemm_sm90_dequant_tile_k(c.weight), p.k);
      const bool waits = !gemm_sm90_dequant_in_order(c) || (c.splits != 1 && c.cluster == 1);
      EXPECT_LE(cut.clusters, gpu().units * c.blocks) << "blocks that wait for each other must all run";
      const auto stages = gemm_sm90_dequant_family().stages(erase(p), gpu(), candidate.step, nullptr);
      ASSERT_TRUE(stages.ok());
      const LaunchShape& shape = stages->front().shape;
      EXPECT_EQ(shape.cooperative, waits) << "at a time";
      EXPECT_EQ(shape.cluster[0], static_cast<uint32_t>(c.cluster));
      EXPECT_EQ(shape.grid[0] % shape.cluster[0], 0u);
    }
  }
}

TEST(GemmSm90DequantFamily, AKernelOfAnotherProblemIsRefused) {
  const GemmProblem p = problem(std::string("m=16:n=4096:k=4096") + kMxfp4);
  const RecipeStep step = gemm_sm90_dequant_family().candidates(erase(p), gpu()).front().step;
  const auto check = [&](const std::string& text) {
    return gemm_sm90_dequant_family().check(erase(problem(text)), gpu(), step).message();
  };
  EXPECT_THAT(check("m=16:n=4096:k=4096:a=bf16:b=e4m3"), HasSubstr("kernel widens e2m1, B is e4m3"));
  EXPECT_THAT(check("m=16:n=4096:k=4096:a=bf16:b=e2m1:scale_b=f32.1x32"),
              HasSubstr("the kernel has scales e8m0 of 32 values, B has f32 of 32"));
  EXPECT_THAT(check(std::string("m=33:n=4096:k=4096") + kMxfp4), HasSubstr("M = 33, the kernel takes 16"));
  EXPECT_THAT(check("m=16:n=4096:k=4096:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32"),
              HasSubstr("one of kernel and B is packed"));
}

TEST(GemmSm90DequantFamily, ScalesComeWholeWhereATilesRowsAreShortAndLieOneAfterAnother) {
  const auto most = [](const std::string& text) {
    int row = 0;
    for (const Candidate& found : gemm_sm90_dequant_family().candidates(erase(problem(text)), gpu())) {
      row = std::max(row, config_of(found.step).scale_row);
    }
    return row;
  };
  EXPECT_EQ(most("m=4:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:batch=128"), 96);
  EXPECT_EQ(most("m=4:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32.518400.100.1:batch=128"), 112);
  EXPECT_EQ(most("m=4:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32.0.1.5760"), 0) << "columns side by side";
  EXPECT_EQ(most("m=4:n=5760:k=28672:a=bf16:b=e2m1:scale_b=e8m0.1x32"), 0) << "more than a slot holds";
  EXPECT_EQ(most("m=4:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.128x128"), 0) << "columns that share them";
  EXPECT_EQ(most("m=4:n=5760:k=2880:a=f16:b=e2m1:scale_b=e8m0.1x32"), 0) << "sums are multiplied, not weights";
  // A kernel with slots for shorter rows is refused.
  const GemmProblem p = problem("m=4:n=512:k=256:a=bf16:b=e2m1:scale_b=e8m0.1x32");
  for (const Candidate& found : gemm_sm90_dequant_family().candidates(erase(p), gpu())) {
    if (config_of(found.step).scale_row == 0) continue;
    const GemmProblem longer = problem("m=4:n=512:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32");
    EXPECT_THAT(gemm_sm90_dequant_family().check(erase(longer), gpu(), found.step).message(),
                HasSubstr("no rows of at most 16 bytes"));
    return;
  }
  FAIL() << "no candidate brings scales whole";
}

// A value's place in an instruction: slot 2 q + h of its first eight, or of its second eight.
TEST(GemmSm90DequantFamily, WeightsAndTokensHaveTheSameKInEveryPlaceOfAProduct) {
  GemmSm90DequantConfig c{};
  c.dtype = DType::kBf16;
  for (const DType weight : {DType::kF4E2M1, DType::kI4, DType::kU4, DType::kF8E4M3, DType::kI8}) {
    for (const int group : {0, 32, 64, 128}) {
      c.weight = weight, c.scale = group == 0 ? DType::kNone : DType::kF32, c.group = group;
      const int tile_k = gemm_sm90_dequant_tile_k(weight), of_word = word_values(weight) / 4;
      std::set<int> seen;
      for (int instruction = 0; instruction < tile_k / 16; ++instruction) {
        std::set<int> groups;
        for (int slot = 0; slot < 16; ++slot) {
          const int quarter = slot % 8 / 2, half = slot % 2, second = slot / 8;
          const int word = instruction / of_word, pair = instruction % of_word * 2 + second;
          const int of_weights = gemm_sm90_dequant_word_k(c, word, quarter) + pair_value(weight, pair, half);
          const int piece = instruction / 2, chunk = instruction % 2 * 2 + second;
          const int value = gemm_sm90_dequant_piece_value(c, chunk, quarter, half);
          const int of_tokens = gemm_sm90_dequant_piece_k(c, piece, value / 8) + value % 8;
          EXPECT_EQ(of_weights, of_tokens) << dtype_name(weight) << " " << instruction << " " << slot;
          EXPECT_TRUE(seen.insert(of_weights).second);
          groups.insert(group == 0 ? 0 : of_weights / group);
        }
        EXPECT_EQ(groups.size(), 1u) << "an instruction adds values of several groups";
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(tile_k));
      EXPECT_EQ(*seen.rbegin(), tile_k - 1);
    }
  }
}

}  // namespace
}  // namespace tilewright
