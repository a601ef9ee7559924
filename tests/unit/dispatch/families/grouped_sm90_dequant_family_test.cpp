// SPDX-License-Identifier: MIT
// grouped_sm90_dequant asked without a GPU: what it refuses, what it offers, what a launch looks like.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "core/fields.hpp"
#include "grouped_gemm/sm90/dequant/grouped_sm90_dequant_args.hpp"
#include "ops/grouped_gemm/families/grouped_gemm_families.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

DeviceSpec dequant_hopper() {
  DeviceSpec device = test::cuda_device("sm_90a", 132);
  device.part = "h200";
  return device;
}
GroupedGemmProblem groups_of(const std::string& text) {
  const Result<GroupedGemmProblem> parsed = parse_grouped_gemm_problem(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed ? *parsed : GroupedGemmProblem();
}
std::string why_not(const std::string& text) {
  return grouped_sm90_dequant_family().supports(erase(groups_of(text)), dequant_hopper()).message();
}

constexpr const char* kGptOss = "groups=128:m=256:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32";

TEST(GroupedSm90DequantFamily, WhatItCannotDoIsRefusedWithTheReason) {
  EXPECT_EQ(why_not(kGptOss), "");
  EXPECT_EQ(why_not("mode=masked:groups=4:m=33:n=65:k=128:a=f16:b=i4:scale_b=f16.1x128:status=1"), "");
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=64:a=bf16"), HasSubstr("A and B are bf16"));
  EXPECT_THAT(why_not("mode=ragged_k:groups=4:m=64:n=64:k=256:a=bf16:b=e4m3"), HasSubstr("mode is ragged_k"));
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=64:a=bf16:b=e4m3:gather=100"), HasSubstr("indices name rows"));
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=72:a=bf16:b=e4m3"), HasSubstr("b: the kernel wants rows along K"));
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=64:a=bf16:b=e4m3:c=bf16"), HasSubstr("the epilogue has C"));
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=64:a=bf16:b=e4m3:batch_invariant=1"), HasSubstr("batch_invariant"));
  EXPECT_EQ(why_not("groups=4:m=64:n=65:k=192:a=bf16:b=i4:packed=fragments:scale_b=f16.1x64"), "");
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=96:a=bf16:b=i4:packed=fragments"), HasSubstr("K = 96 of packed i4"));
  EXPECT_THAT(why_not("groups=4:m=64:n=160:k=64:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32:gate=separated"),
              HasSubstr("N = 160 of packed gate and up"));
  EXPECT_THAT(why_not("groups=4:m=64:n=64:k=64:a=bf16:b=i4:packed=1"), HasSubstr("CPUs read it"));
  EXPECT_THAT(why_not("groups=2100:m=64:n=64:k=64:a=bf16:b=e4m3:mode=masked"),
              HasSubstr("groups may have 2100 pieces"));
  // Prompts of 16384 tokens, each with eight of 256 groups.
  EXPECT_EQ(why_not("groups=256:m=131072:n=4096:k=7168:a=bf16:b=i4:scale_b=f16.1x128"), "");
}

TEST(GroupedSm90DequantFamily, EveryCandidateIsLegal) {
  for (const char* text : {kGptOss, "groups=128:m=256:n=5760:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32",
                           "groups=8:m=512:n=28672:k=4096:a=bf16:b=u4:packed=fragments:scale_b=f16.1x128:zero_b=u4",
                           "groups=8:m=512:n=28672:k=4096:a=bf16:b=i4:scale_b=f16.1x128",
                           "mode=masked:groups=128:m=8:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32:rows=4",
                           "groups=32:m=256:n=1024:k=512:a=bf16:b=e2m1:scale_b=e8m0.1x32:gate=separated:act=silu"}) {
    SCOPED_TRACE(text);
    const GroupedGemmProblem p = groups_of(text);
    const KernelFamily& family = grouped_sm90_dequant_family();
    const std::vector<Candidate> found = family.candidates(erase(p), dequant_hopper());
    ASSERT_FALSE(found.empty());
    EXPECT_TRUE(std::ranges::is_sorted(found, {}, &Candidate::cost));
    for (const Candidate& candidate : found) {
      const Status status = family.check(erase(p), dequant_hopper(), candidate.step);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(family.source(candidate.step.key).ok());
      EXPECT_GT(candidate.cost, 0);
      EXPECT_DOUBLE_EQ(candidate.cost, family.cost(erase(p), dequant_hopper(), candidate.step));
      EXPECT_LE(family.launch_shared_bytes(candidate.step.key), find_arch("sm_90a")->shared_bytes);
    }
  }
}

TEST(GroupedSm90DequantFamily, ConfigsThatGroupsHaveNoPlaceForAreRefused) {
  const GroupedGemmProblem p = groups_of("groups=128:m=4096:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32");
  GemmSm90DequantConfig c{};
  const KernelFamily& family = grouped_sm90_dequant_family();
  ASSERT_TRUE(parse_fields(family.candidates(erase(p), dequant_hopper()).front().step.key.config(), c).ok());
  const auto refused = [&](auto&& change) {
    GemmSm90DequantConfig changed = c;
    change(changed);
    return std::string(grouped_sm90_dequant_refusal(changed));
  };
  EXPECT_THAT(refused([](GemmSm90DequantConfig& to) { to.splits = 2; }), HasSubstr("splits is not 1"));
  EXPECT_THAT(refused([](GemmSm90DequantConfig& to) { to.blocks = 2; }), HasSubstr("blocks is not 1"));
  EXPECT_THAT(
      refused([](GemmSm90DequantConfig& to) { to.rows = 256, to.tokens = 32, to.warpgroups = 4, to.scale_row = 0; }),
      HasSubstr("no registers for so many rows"));
}

TEST(GroupedSm90DequantFamily, FewRowsAGroupTakeNarrowTilesAndManyWideOnes) {
  const auto first = [](const char* text) {
    const GroupedGemmProblem p = groups_of(text);
    GemmSm90DequantConfig c{};
    EXPECT_TRUE(
        parse_fields(grouped_sm90_dequant_family().candidates(erase(p), dequant_hopper()).front().step.key.config(), c)
            .ok());
    return c.tokens;
  };
  EXPECT_EQ(first(kGptOss), 8);
  EXPECT_GE(first("groups=8:m=1024:n=5760:k=2880:a=bf16:b=e2m1:scale_b=e8m0.1x32"), 64);
}

TEST(GroupedSm90DequantFamily, TheWorkspaceHoldsTheRowsOfAllEntries) {
  const GroupedGemmProblem p = groups_of(kGptOss);
  const KernelFamily& family = grouped_sm90_dequant_family();
  for (const Candidate& candidate : family.candidates(erase(p), dequant_hopper())) {
    GemmSm90DequantConfig c{};
    ASSERT_TRUE(parse_fields(candidate.step.key.config(), c).ok());
    // Twelve steps of 256 of K, as many entries as groups and their rows in whole ones.
    const int64_t entries = 128 + 256 / c.tokens;
    EXPECT_EQ(family.workspace_bytes(erase(p), dequant_hopper(), candidate.step), entries * 12 * 256 * 2 * c.tokens);
    const Result<std::vector<Stage>> stages = family.stages(erase(p), dequant_hopper(), candidate.step, nullptr);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    const Stage& stage = stages->front();
    EXPECT_EQ(stage.args.size(), sizeof(GroupedSm90DequantArgs));
    EXPECT_EQ(stage.shape.grid[0], 132u);
    EXPECT_TRUE(stage.shape.cooperative);
    ASSERT_EQ(stage.tensor_maps.size(), 1u);
    EXPECT_EQ(stage.tensor_maps[0].dims[2], 128u);
  }
}

// No block waits for another one's share of A.
TEST(GroupedSm90DequantFamily, PackedIntegersWantNoWorkspace) {
  const GroupedGemmProblem p =
      groups_of("groups=8:m=512:n=28672:k=4096:a=bf16:b=i4:packed=fragments:scale_b=f16.1x128");
  const KernelFamily& family = grouped_sm90_dequant_family();
  for (const Candidate& candidate : family.candidates(erase(p), dequant_hopper())) {
    EXPECT_EQ(family.workspace_bytes(erase(p), dequant_hopper(), candidate.step), 0);
    const Result<std::vector<Stage>> stages = family.stages(erase(p), dequant_hopper(), candidate.step, nullptr);
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    EXPECT_FALSE(stages->front().shape.cooperative);
    // A as all groups' rows: slices of K, T, their number, one entry. B's groups.
    ASSERT_EQ(stages->front().tensor_maps.size(), 2u);
    const auto has_dims = [&](std::array<uint64_t, 4> dims) {
      return std::ranges::any_of(stages->front().tensor_maps, [&](const TensorMapSpec& map) {
        return map.rank == 4 && std::equal(dims.begin(), dims.end(), map.dims.begin());
      });
    };
    EXPECT_TRUE(has_dims({64, 512, 64, 1}));
    EXPECT_TRUE(has_dims({kFragmentWords, 4096 / kFragmentK * kFragmentsAside, 28672 / kFragmentGroup, 8}));
  }
}

TEST(GroupedSm90DequantFamily, AKernelOfPlainWeightsTakesNoPackedOnes) {
  const GroupedGemmProblem plain = groups_of(kGptOss);
  const GroupedGemmProblem packed =
      groups_of("groups=128:m=256:n=5760:k=2880:a=bf16:b=e2m1:packed=fragments:scale_b=e8m0.1x32");
  const KernelFamily& family = grouped_sm90_dequant_family();
  const auto first = [&](const GroupedGemmProblem& p) {
    return family.candidates(erase(p), dequant_hopper()).front().step;
  };
  EXPECT_THAT(family.check(erase(packed), dequant_hopper(), first(plain)).message(), HasSubstr("is packed"));
  EXPECT_THAT(family.check(erase(plain), dequant_hopper(), first(packed)).message(), HasSubstr("is packed"));
}

}  // namespace
}  // namespace tilewright
