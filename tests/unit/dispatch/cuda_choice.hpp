// SPDX-License-Identifier: MIT
// What the dispatcher chooses on a GPU of the fake driver, with tables that a test makes.
#pragma once

#include "dispatch/context_impl.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"
#include "unit/device/cuda/fake_device.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright::test {

class CudaChoice : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    setenv("TILEWRIGHT_CUDA_DRIVER", kFakeCuda.c_str(), 1);
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

  ScratchFolder scratch;
  std::unique_ptr<Context> context;
};

}  // namespace tilewright::test
