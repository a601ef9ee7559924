// SPDX-License-Identifier: MIT
// grouped_gemm on every emulated AMD GPU, through dispatch: every mode, groups that reach past what there is, indices.
#include <gtest/gtest.h>

#include "device/emu/emu_device.hpp"
#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/op_list.hpp"
#include "support/sanitizer.hpp"

namespace tilewright {
namespace {

class SlowAmdGroupedGemm : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow fibers";
    ContextOptions options;
    options.user_tables = false;
    context_ = std::move(*Context::create(options));
    const Status selected = context_->impl().select_device({DeviceKind::kEmulated, GetParam()});
    if (!selected) GTEST_SKIP() << selected.message();
  }

  // Seeds 0 to 3 are the four ways in which rows are spread.
  void check(const char* text) {
    const Operator& op = grouped_gemm_operator();
    ContextImpl& impl = context_->impl();
    const Result<std::vector<std::byte>> problem = op.parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().to_string();
    auto instance = op.instantiate(*problem, impl.device(), {});
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    for (uint64_t seed = 0; seed < 4; ++seed) {
      (*instance)->fill(seed, InputData::kNormal);
      (*instance)->poison();
      const Status status = impl.run(op, *problem, (*instance)->bindings(), {}, "");
      ASSERT_TRUE(status.ok()) << text << ": " << status.to_string();
      const VerifyReport report = (*instance)->verify();
      EXPECT_TRUE(report.passed) << text << ", seed " << seed << ": " << report.failure;
    }
  }

 private:
  std::unique_ptr<Context> context_;
};

TEST_P(SlowAmdGroupedGemm, EveryModeMatchesTheReferenceWithoutAFault) {
  for (const char* text :
       {"groups=4:m=70:n=33:k=40:a=bf16:status=1", "groups=300:m=9:n=3:k=5:a=f32:status=1",
        "groups=3:align_rows=8:m=64:n=20:k=40:a=i8:scale_a=f32:scale_b=f32:status=1",
        "groups=3:extents=both:m=40:n=34:k=70:a=bf16:gate=interleaved:act=silu:bias=f32.34.0.1:status=1",
        "mode=masked:groups=4:m=35:n=33:k=150:a=e4m3:scale_a=f32.1x128:scale_b=f32.128x128:status=1",
        "mode=ragged_k:groups=4:extents=ends:m=33:n=34:k=70:a=bf16:d=f32:status=1",
        "groups=3:gather=20:scatter=60:m=50:n=33:k=40:a=f16:c=f32:scale_a=f32:status=1",
        "groups=3:gather=20:m=50:n=33:k=70:a=e4m3:b=e2m1:scale_a=e8m0.1x32:scale_b=e8m0.1x32:status=1"}) {
    check(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SlowAmdGroupedGemm, testing::Range(0, static_cast<int>(std::size(kEmulatedTargets))),
                         [](const testing::TestParamInfo<int>& info) { return kEmulatedTargets[info.param]; });

}  // namespace
}  // namespace tilewright
