// SPDX-License-Identifier: MIT
// TILEWRIGHT_JIT=background and off through the whole path of a call: what is built serves, the better kernel takes over
// when it is compiled, and off never compiles.
#include <gtest/gtest.h>

#include <thread>

#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

class BackgroundJit : public testing::Test {
 protected:
  void SetUp() override {
    if (Status status = host_compiler().available(); !status) GTEST_SKIP() << status.message();
    // A problem whose best kernel is not linked in.
    for (const int m : {2, 8, 1, 3, 16, 300}) {
      for (const char* rest : {"n=256:k=256:a=bf16:packed=1", "n=64:k=4096:a=f32", "n=4096:k=512:a=f32:packed=1"}) {
        const std::unique_ptr<Context> context = open("off");
        Result<std::vector<std::byte>> parsed = gemm_operator().parse_problem(fmt::format("m={}:{}", m, rest));
        ASSERT_TRUE(parsed.ok());
        ContextImpl& impl = context->impl();
        Result<std::vector<Choice>> choices =
            impl.dispatcher().choices(gemm_operator(), *parsed, impl.spec(0), *impl.tables(), "", nullptr);
        ASSERT_TRUE(choices.ok());
        if (impl.dispatcher().built(gemm_operator(), choices->front().recipe)) continue;
        problem_ = *parsed;
        best_ = print_recipe(gemm_operator().families(), choices->front().recipe);
        return;
      }
    }
    GTEST_SKIP() << "every best kernel is linked in on this CPU";
  }

  std::unique_ptr<Context> open(const char* jit) {
    ContextOptions options;
    options.jit = jit;
    options.cache_dir = scratch_ / "root";
    options.user_tables = false;
    options.cpu_units = 2;
    return std::move(*Context::create(options));
  }
  // Runs the problem and compares with the reference.
  void run(Context& context) {
    auto instance = gemm_operator().instantiate(problem_, context.impl().device(), {});
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    (*instance)->fill(1, InputData::kNormal);
    (*instance)->poison();
    const Status status = context.impl().run(gemm_operator(), problem_, (*instance)->bindings(), {}, "");
    ASSERT_TRUE(status.ok()) << status.to_string();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << report.failure;
  }
  static uint64_t count(Context& context, const std::string& name) {
    for (const auto& [counter, value] : context.counters()) {
      if (counter == name) return value;
    }
    ADD_FAILURE() << name;
    return 0;
  }
  std::shared_ptr<const Plan> plan(Context& context) {
    return *context.impl().plan(gemm_operator(), problem_, 0, "", true);
  }
  static std::string text(const Plan& plan) { return print_recipe(gemm_operator().families(), plan.recipe); }

  test::ScratchFolder scratch_;
  std::vector<std::byte> problem_;
  std::string best_;
};

TEST_F(BackgroundJit, WhatIsBuiltServesUntilTheBetterKernelTakesOver) {
  const std::unique_ptr<Context> context = open("background");
  CodeCache& cache = context->impl().cache();
  run(*context);
  if (cache.background_generation() == 0) {  // else the compile was faster than the call
    EXPECT_TRUE(plan(*context)->fallback);
    EXPECT_NE(text(*plan(*context)), best_);
    // While nothing has changed, the plan is not made again.
    const uint64_t misses = count(*context, "plan_misses");
    for (int i = 0; i < 5; ++i) (void)plan(*context);
    if (cache.background_generation() == 0) {
      EXPECT_EQ(count(*context, "plan_misses"), misses);
    }
  }
  for (int i = 0; i < 60000 && cache.background_generation() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  run(*context);
  EXPECT_FALSE(plan(*context)->fallback);
  EXPECT_EQ(text(*plan(*context)), best_);
  EXPECT_EQ(count(*context, "compiles"), 1u);
}

TEST_F(BackgroundJit, ACompileThatFailsLeavesWhatIsBuiltInPlace) {
  const test::ScopedVariable kernels("TILEWRIGHT_KERNEL_DIR", scratch_ / "none");
  const std::unique_ptr<Context> context = open("background");
  for (int i = 0; i < 10; ++i) run(*context);
  EXPECT_TRUE(plan(*context)->fallback);
  EXPECT_EQ(count(*context, "compiles"), 0u);
}

TEST_F(BackgroundJit, AFolderOfKernelsTakesThePlaceOfWhatIsBuiltFromOthers) {
  EXPECT_EQ(text(*plan(*open("off"))).find("gemm_generic"), std::string::npos);
  const test::ScopedVariable kernels("TILEWRIGHT_KERNEL_DIR", scratch_ / "none");
  // But for what serves every problem.
  EXPECT_NE(text(*plan(*open("off"))).find("gemm_generic"), std::string::npos);
}

TEST_F(BackgroundJit, OffNeverCompiles) {
  const std::unique_ptr<Context> context = open("off");
  for (int i = 0; i < 3; ++i) run(*context);
  EXPECT_TRUE(plan(*context)->fallback);
  EXPECT_EQ(count(*context, "compiles"), 0u);
  EXPECT_EQ(count(*context, "compile_failures"), 0u);
  Result<QueryResult> query = context->impl().query(gemm_operator(), problem_, 0, "");
  ASSERT_TRUE(query.ok());
  EXPECT_TRUE(query->built);
  EXPECT_TRUE(query->fallback);
  EXPECT_EQ(query->recipe, text(*plan(*context)));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "root/abi1"));
}

}  // namespace
}  // namespace tilewright
