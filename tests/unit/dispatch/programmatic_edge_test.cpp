// SPDX-License-Identifier: MIT
// Calls with programmatic edges choose for themselves: by rows that were measured so, else by those of ordinary edges.
#include "unit/dispatch/cuda_choice.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kPlain = "m=16:n=4096:k=4096:a=bf16";
constexpr const char* kEdged = "m=16:n=4096:k=4096:a=bf16:programmatic_edge=1";

class ProgrammaticEdgeChoice : public test::CudaChoice {};

TEST_F(ProgrammaticEdgeChoice, ItsOwnRowComesBeforeTheOneOfOrdinaryEdgesAndServesNobodyElse) {
  const TunedRow plain = row(kPlain, 2), edged = row(kEdged, 3);
  TunedTable both, one, other;
  both.add_layer({plain, edged});
  one.add_layer({plain});
  other.add_layer({edged});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(first(kPlain, both), plain.recipe);
  EXPECT_EQ(first(kEdged, both), edged.recipe);
  EXPECT_EQ(first(kEdged, one), plain.recipe);
  EXPECT_EQ(choices(kEdged, one).front().source, ChoiceSource::kTuned);
  EXPECT_EQ(choices(kPlain, other).front().source, ChoiceSource::kCost);
}

TEST_F(ProgrammaticEdgeChoice, AnExactRowOfOrdinaryEdgesComesBeforeABucketOfItsOwn) {
  const TunedRow plain = row(kPlain, 2), near = row("m=15:n=4096:k=4096:a=bf16:programmatic_edge=1", 3);
  ASSERT_NE(near.sizes, row(kEdged, 3).sizes);
  ASSERT_EQ(near.bucket, row(kEdged, 3).bucket);
  TunedTable both, one;
  both.add_layer({plain, near});
  one.add_layer({near});
  EXPECT_EQ(first(kEdged, both), plain.recipe);
  EXPECT_EQ(first(kEdged, one), near.recipe);
  EXPECT_EQ(choices(kEdged, one).front().source, ChoiceSource::kBucket);
}

TEST_F(ProgrammaticEdgeChoice, TheCallersLeaveIsPartOfTheProblemOnAGpuOnly) {
  void* const address = reinterpret_cast<void*>(uintptr_t{1} << 20);
  const auto explained = [&](DeviceKind kind, bool edge) {
    GemmCall call;
    call.a = TensorView::contiguous(address, DType::kBf16, {16, 64});
    call.b = TensorView::contiguous(address, DType::kBf16, {64, 32});
    call.d = TensorView::contiguous(address, DType::kBf16, {16, 32});
    for (TensorView* view : {&call.a, &call.b, &call.d}) view->device = {kind, 0};
    Exec exec;
    exec.programmatic_edge = edge;
    const Result<std::string> text = gemm_explain(*context, call, exec);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text ? *text : "";
  };
  EXPECT_THAT(explained(DeviceKind::kCuda, true), HasSubstr("programmatic_edge=1"));
  EXPECT_THAT(explained(DeviceKind::kCuda, false), Not(HasSubstr("programmatic_edge")));
  EXPECT_THAT(explained(DeviceKind::kCpu, true), Not(HasSubstr("programmatic_edge")));
}

TEST_F(ProgrammaticEdgeChoice, RowsRoutersAndCachesHaveProblemsOfTheirOwn) {
  for (const auto& [op, text] : {std::pair{&rms_norm_operator(), "m=16:n=4096:x=bf16:weight=bf16:out=bf16"},
                                 std::pair{&moe_routing_operator(), "t=16:e=256:k=8:x=bf16"},
                                 std::pair{&kv_cache_write_operator(), "t=16:k=8:n=128:x=bf16"}}) {
    SCOPED_TRACE(text);
    const auto plain = op->parse_problem(text), edged = op->parse_problem(std::string(text) + ":programmatic_edge=1");
    ASSERT_TRUE(plain.ok() && edged.ok());
    EXPECT_THAT(op->problem_text(*edged), HasSubstr("programmatic_edge=1"));
    EXPECT_EQ(*op->parse_problem(op->problem_text(*edged)), *edged);
    EXPECT_EQ(op->signature(*edged).other_core, op->signature(*plain).core);
    EXPECT_NE(op->signature(*edged).core, op->signature(*plain).core);
    EXPECT_TRUE(op->programmatic_edge(*edged));
    EXPECT_FALSE(op->programmatic_edge(*plain));
  }
}

TEST_F(ProgrammaticEdgeChoice, IsMeasuredInARowOfCallsWithSuchEdges) {
  const std::unique_ptr<Device> device = open();
  alignas(16) static const std::byte kArgs[16] = {};
  const auto attributes = [&](bool chosen_so) {
    Plan plan;
    plan.programmatic_edge = chosen_so;
    Stage& stage = plan.stages.emplace_back();
    stage.kernel = *device->load(cubin());
    stage.args.assign(std::begin(kArgs), std::end(kArgs));
    stage.shape.grid = {8, 1, 1};
    stage.shape.threads = 128;
    stage.shape.programmatic_edge = true;
    fake->launches.clear();
    EXPECT_TRUE(run_plan_in_row(*device, plan, {}, {}).ok());
    return fake->launches.at(0).attributes.size();
  };
  EXPECT_EQ(attributes(true), 1u);
  EXPECT_EQ(attributes(false), 0u);
}

}  // namespace
}  // namespace tilewright
