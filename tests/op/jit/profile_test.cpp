// SPDX-License-Identifier: MIT
// The stages that a profiler sees of a call: a first one that compiles, and a repeated one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/op_list.hpp"
#include "tilewright/tilewright.h"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::ElementsAre;

class ProfiledCall : public testing::Test {
 protected:
  void SetUp() override {
    const auto push = [](void* user, const char* name) { static_cast<ProfiledCall*>(user)->add(name); };
    const auto pop = [](void* user) { static_cast<ProfiledCall*>(user)->add("pop"); };
    ASSERT_EQ(tilewright_set_profile_callbacks(push, pop, this), TILEWRIGHT_OK);
  }
  void TearDown() override { EXPECT_EQ(tilewright_set_profile_callbacks(nullptr, nullptr, nullptr), TILEWRIGHT_OK); }

  void add(std::string event) { events_.push_back(std::move(event)); }
  std::vector<std::string> events_of_call(Context& context, const std::string& recipe) {
    const std::vector<std::byte> problem = *gemm_operator().parse_problem("m=4:n=64:k=64:a=f32");
    auto instance = gemm_operator().instantiate(problem, context.impl().device(), {});
    EXPECT_TRUE(instance.ok());
    (*instance)->fill(1, InputData::kNormal);
    events_.clear();
    const Status status = context.impl().run(gemm_operator(), problem, (*instance)->bindings(), {}, recipe);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return events_;
  }
  std::unique_ptr<Context> open() {
    ContextOptions options;
    options.jit = "on";
    options.cache_dir = scratch_ / "root";
    options.user_tables = false;
    options.cpu_units = 1;
    return std::move(*Context::create(options));
  }

  test::ScratchFolder scratch_;
  std::vector<std::string> events_;
};

TEST_F(ProfiledCall, HasARangeForEachStage) {
  if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
  // Built into no library: a register tile that nobody wants.
  const std::string recipe =
      "gemm/gemm_cpu/x86-64-v3/dtype=f32/dtype=f32:mma=fma_avx2:tile_m=1:tile_n=16:prefetch=3@block_m=0:block_n=0:"
      "block_k=0";
  const std::unique_ptr<Context> context = open();
  if (!runs_on("x86-64-v3", context->impl().spec(0).arch->target)) GTEST_SKIP() << "this CPU does not run x86-64-v3";
  EXPECT_THAT(events_of_call(*context, recipe),
              ElementsAre("tilewright:gemm:plan", "tilewright:gemm:dispatch", "pop", "tilewright:gemm:load",
                          "tilewright:gemm:compile", "pop", "pop", "pop", "tilewright:gemm:launch", "pop"));
  EXPECT_THAT(events_of_call(*context, recipe), ElementsAre("tilewright:gemm:launch", "pop"));
  // A later process finds the kernel.
  EXPECT_THAT(events_of_call(*open(), recipe),
              ElementsAre("tilewright:gemm:plan", "tilewright:gemm:dispatch", "pop", "tilewright:gemm:load", "pop",
                          "pop", "tilewright:gemm:launch", "pop"));
}

}  // namespace
}  // namespace tilewright
