// SPDX-License-Identifier: MIT
// Calls with programmatic edges choose for themselves: by rows that were measured so, else by those of ordinary edges.
#include "dispatch/context_impl.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"
#include "unit/device/cuda/fake_device.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kPlain = "m=16:n=4096:k=4096:a=bf16";
constexpr const char* kEdged = "m=16:n=4096:k=4096:a=bf16:programmatic_edge=1";

class ProgrammaticEdgeChoice : public test::FakeCudaTest {
 protected:
  void SetUp() override {
    test::FakeCudaTest::SetUp();
    setenv("TILEWRIGHT_CUDA_DRIVER", test::kFakeCuda.c_str(), 1);
    if (const auto opened = cuda::driver(); !opened) GTEST_SKIP() << opened.status().message();
    ContextOptions options;
    options.cache_dir = scratch / "cache";
    options.user_tables = false;
    context = *Context::create(options);
    ASSERT_TRUE(impl().select_device({DeviceKind::kCuda, 0}).ok());
  }
  ContextImpl& impl() { return context->impl(); }

  std::vector<Choice> choices(const char* text, const TunedTable& table) {
    return *impl().dispatcher().choices(gemm_operator(), *gemm_operator().parse_problem(text), impl().spec(0), table,
                                        "", nullptr);
  }
  // A row of this problem that names the cost model's choice number `place`.
  TunedRow row(const char* text, size_t place) {
    const ProblemSignature s = gemm_operator().signature(*gemm_operator().parse_problem(text));
    TunedRow row;
    row.op = "gemm", row.target = "sm_90a", row.part = impl().spec(0).part, row.units = impl().spec(0).units;
    row.core = s.core, row.epilogue = s.epilogue, row.sizes = s.sizes, row.bucket = s.bucket, row.us = 1;
    row.recipe = print_recipe(gemm_operator().families(), choices(text, {}).at(place).recipe);
    return row;
  }
  std::string first(const char* text, const TunedTable& table) {
    return print_recipe(gemm_operator().families(), choices(text, table).front().recipe);
  }

  test::ScratchFolder scratch;
  std::unique_ptr<Context> context;
};

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
