// SPDX-License-Identifier: MIT
// Tests on a CUDA device that call operators: a context without the user's tables, and its device.
#pragma once

#include "dispatch/context_impl.hpp"
#include "op/gpu/gpu_test.hpp"

namespace tilewright::test {

class GpuContextTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ContextOptions options;
    options.user_tables = false;
    Result<std::unique_ptr<Context>> made = Context::create(options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    context = std::move(*made);
    Result<OpenDevice*> opened = context->impl().open_device("gemm", {DeviceKind::kCuda, 0});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    on = (*opened)->device.get();
  }

  std::unique_ptr<Context> context;
  Device* on = nullptr;
};

}  // namespace tilewright::test
