// SPDX-License-Identifier: MIT
// How clusters share groups that stay in their shared memory, and which of them is predicted to be best.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/fields.hpp"
#include "ops/group_norm/families/group_norm_slots.hpp"
#include "ops/op_list.hpp"
#include "unit/dispatch/families/asked_device.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

DeviceSpec slot_device() {
  DeviceSpec device = test::cuda_device("sm_90a", 132);
  device.part = "h200";
  return device;
}
GroupNormProblem group_norm_problem(const std::string& text) {
  const auto parsed = group_norm_operator().parse_problem(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return problem_cast<GroupNormProblem>(*parsed);
}
std::string bf16_image(const std::string& sizes) { return sizes + ":x=bf16:weight=bf16:bias=bf16"; }
std::optional<GroupSlotPlan> slot_plan(const std::string& sizes, int cluster, int threads = 256) {
  const GroupNormProblem p = group_norm_problem(bf16_image(sizes));
  return plan_group_slots(p, {DType::kBf16, p.channels_last != 0, true, cluster, threads}, slot_device());
}
RecipeStep slot_step(const GroupNormConfig& config, const std::string& op = "group_norm") {
  return {make_key(op, op + "_gpu", "sm_90a", group_norm_signature(config), print_fields(config)), {}};
}
GroupNormProblem gradient_problem(const std::string& sizes) {
  const auto parsed = group_norm_backward_operator().parse_problem(bf16_image(sizes) + ":dweight=bf16");
  EXPECT_TRUE(parsed.ok()) << sizes;
  return problem_cast<GroupNormProblem>(*parsed);
}
std::optional<GroupSlotPlan> gradient_plan(const std::string& sizes, int cluster, int threads = 256) {
  const GroupNormProblem p = gradient_problem(sizes);
  return plan_group_slots(p, {DType::kBf16, p.channels_last != 0, true, cluster, threads}, slot_device());
}
// Of the candidate that is predicted to be the fastest, "cluster x threads".
std::string best_slots(const std::string& sizes, bool backward = false) {
  const Operator& op = backward ? group_norm_backward_operator() : group_norm_operator();
  const auto parsed = op.parse_problem(bf16_image(sizes) + (backward ? ":dweight=bf16:dbias=bf16" : ""));
  std::string found;
  double least = 1;
  for (const Candidate& each : group_norm_gpu_family(false, backward).candidates(*parsed, slot_device())) {
    GroupNormConfig config{};
    EXPECT_TRUE(parse_fields(each.step.key.config(), config).ok());
    if (each.cost < least) least = each.cost, found = fmt::format("{}x{}", config.cluster, config.threads);
  }
  return found;
}

TEST(GroupNormSlots, ASlabIsWholeGroupsOfWholePieces) {
  const auto last = slot_plan("n=2:c=320:s=4096:g=32:channels_last=1", 8);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->width, 40);  // four groups of ten: five pieces
  EXPECT_EQ(last->slabs, 8);
  EXPECT_EQ(last->below, 51);
  EXPECT_EQ(last->turns, 11);  // of 512 positions
  EXPECT_EQ(last->blocks, 2 * 8 * 8);
  const auto lines = slot_plan("n=1:c=512:s=64:g=32:channels_last=1", 1);
  ASSERT_TRUE(lines.has_value());
  EXPECT_EQ(lines->width, 32);  // a group alone would be one sector of each position
  const auto first = slot_plan("n=2:c=320:s=4096:g=32", 2);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->width, 10);
  EXPECT_EQ(first->turns, 10);  // of 2560 pieces
}

TEST(GroupNormSlots, WhatDoesNotFitHasNoPlan) {
  EXPECT_FALSE(slot_plan("n=1:c=128:s=1048576:g=32", 8).has_value());
  EXPECT_FALSE(slot_plan("n=2:c=320:s=16384:g=32:channels_last=1", 4, 512).has_value());
  EXPECT_TRUE(slot_plan("n=2:c=320:s=16384:g=32:channels_last=1", 6, 512).has_value());
  EXPECT_FALSE(slot_plan("n=1:c=24:s=64:g=8:channels_last=1", 1).has_value());    // pieces of four groups
  EXPECT_TRUE(slot_plan("n=1:c=24:s=64:g=6:channels_last=1", 1).has_value());     // of two
  EXPECT_FALSE(slot_plan("n=1:c=4096:s=64:g=1:channels_last=1", 1).has_value());  // more pieces than threads
  EXPECT_TRUE(slot_plan("n=1:c=4096:s=64:g=1:channels_last=1", 8, 512).has_value());
  EXPECT_FALSE(slot_plan("n=0:c=32:s=64:g=4", 1).has_value());
  EXPECT_FALSE(slot_plan("n=1:c=32:s=4:g=4", 1).has_value());  // no whole piece
}

TEST(GroupNormSlots, AGradientsSlabIsXAndDy) {
  const auto plan = gradient_plan("n=2:c=320:s=4096:g=32", 4);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->lane_bits, 5);
  EXPECT_EQ(plan->span, 1280);
  EXPECT_EQ(plan->turns, 5);
  EXPECT_EQ(plan->shared_bytes, 2048 + 16 * 256 + 16 * (32 + 8 * 4) + 2 * 5 * 256 * 16);
  EXPECT_FALSE(gradient_plan("n=2:c=320:s=16384:g=32", 2, 512).has_value());  // 164 KB a block of x alone
  EXPECT_TRUE(gradient_plan("n=2:c=320:s=16384:g=32", 4, 512).has_value());
}

TEST(GroupNormSlots, LanesThatAddAGradientsSumsHaveOneChannel) {
  const auto plan =
      gradient_plan("n=2:c=30:s=72:g=3", 4);  // lines of nine pieces, of which no two lanes share one surely
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->lane_bits, 0);
  EXPECT_EQ(plan->span, 23);
  const auto pairs = gradient_plan("n=2:c=30:s=144:g=3", 4);
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ(pairs->lane_bits, 1);
  EXPECT_EQ(pairs->span, 46);  // 45, but lanes of two blocks would share a channel
  // Sums of each lane's pieces have room for two turns.
  EXPECT_TRUE(gradient_plan("n=2:c=32:s=8072:g=32", 2, 256).has_value());
  EXPECT_FALSE(gradient_plan("n=2:c=32:s=8072:g=32", 1, 256).has_value());
}

TEST(GroupNormSlots, GradientsOfWeightsAreSumsOverImagesInAWorkspace) {
  const GroupNormProblem p = gradient_problem("n=3:c=64:s=64:g=4");
  const KernelFamily& family = group_norm_gpu_family(false, true);
  const RecipeStep step = slot_step({DType::kBf16, false, true, 2, 256}, "group_norm_backward");
  EXPECT_EQ(family.workspace_bytes(erase(p), slot_device(), step), 3 * 64 * 2 * 4);
  GroupNormProblem without = p;
  without.dweight = DType::kNone;
  EXPECT_EQ(family.workspace_bytes(erase(without), slot_device(), step), 0);
  const auto stages = family.stages(erase(p), slot_device(), step, nullptr);
  ASSERT_TRUE(stages.ok()) << stages.status().message();
  ASSERT_EQ(stages->size(), 2);
  EXPECT_EQ(stages->at(0).shape.cluster[0], 2);
  EXPECT_TRUE(stages->at(1).shape.stage_edge);
  EXPECT_EQ(family.stages(erase(without), slot_device(), step, nullptr)->size(), 1);
}

TEST(GroupNormSlots, ClustersAreAsLargeAsFillTheDevice) {
  EXPECT_EQ(best_slots("n=2:c=1280:s=1024:g=32"), "2x512");
  EXPECT_EQ(best_slots("n=2:c=1280:s=256:g=32:channels_last=1"), "2x256");
  EXPECT_EQ(best_slots("n=2:c=1280:s=64:g=32"), "1x256");
  // Clusters of four and of eight would take two rounds, of which the second is short.
  EXPECT_EQ(best_slots("n=2:c=640:s=4096:g=32:channels_last=1"), "6x512");
  EXPECT_EQ(best_slots("n=2:c=320:s=16384:g=32:channels_last=1"), "6x512");
  EXPECT_EQ(best_slots("n=16:c=640:s=4096:g=32"), "2x512");
  EXPECT_EQ(best_slots("n=1:c=128:s=1048576:g=32"), "0x0");
  EXPECT_EQ(best_slots("n=2:c=640:s=4096:g=32", true), "2x512");
  EXPECT_EQ(best_slots("n=2:c=1280:s=256:g=32", true), "2x256");
  EXPECT_EQ(best_slots("n=16:c=640:s=4096:g=32", true), "8x256");
  EXPECT_EQ(best_slots("n=16:c=640:s=4096:g=32:channels_last=1", true), "8x256");
  EXPECT_EQ(best_slots("n=2:c=320:s=16384:g=32", true), "8x512");
  EXPECT_EQ(best_slots("n=2:c=320:s=16384:g=32:channels_last=1", true), "0x0");
}

TEST(GroupNormSlots, SlotsNeedNoWorkspace) {
  const auto parsed = group_norm_operator().parse_problem(bf16_image("n=2:c=64:s=64:g=4"));
  ASSERT_TRUE(parsed.ok());
  const auto bytes_of = [&](const GroupNormConfig& config) {
    return group_norm_gpu_family(false, false).workspace_bytes(*parsed, slot_device(), slot_step(config));
  };
  EXPECT_EQ(bytes_of({DType::kBf16, false, true, 2, 256}), 0);
  EXPECT_GT(bytes_of({DType::kBf16, false, true}), 0);
}

TEST(GroupNormSlots, RecipesOfAnotherShapeOrProblemAreRefused) {
  const auto check = [](const std::string& sizes, const GroupNormConfig& config) {
    const auto parsed = group_norm_operator().parse_problem(bf16_image(sizes));
    return group_norm_gpu_family(false, false).check(*parsed, slot_device(), slot_step(config)).message();
  };
  const GroupNormConfig slots{DType::kBf16, false, true, 2, 256};
  EXPECT_EQ(check("n=2:c=64:s=64:g=4", slots), "");
  EXPECT_THAT(check("n=2:c=64:s=4:g=4", slots), HasSubstr("the problem needs"));  // no whole piece
  EXPECT_THAT(check("n=2:c=64:s=64:g=4", {DType::kBf16, false, true, 3, 256}), HasSubstr("cluster=3:threads=256"));
  EXPECT_THAT(check("n=2:c=64:s=64:g=4", {DType::kBf16, false, true, 2, 128}), HasSubstr("threads=128"));
  EXPECT_THAT(check("n=2:c=64:s=64:g=4", {DType::kBf16, false, false, 2, 256}), HasSubstr("whole pieces"));
}

}  // namespace
}  // namespace tilewright
