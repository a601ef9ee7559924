// SPDX-License-Identifier: MIT
// A context with CUDA devices: when they are opened, and what a call is told that cannot have one.
#include "dispatch/context_impl.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"
#include "unit/device/cuda/fake_device.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The driver of the process is opened once: these tests need a process in which nobody asked for it before.
class CudaContextTest : public test::FakeCudaTest {
 protected:
  void SetUp() override {
    test::FakeCudaTest::SetUp();
    setenv("TILEWRIGHT_CUDA_DRIVER", test::kFakeCuda.c_str(), 1);
    const Result<const cuda::Driver*> opened = cuda::driver();
    if (!opened) GTEST_SKIP() << "the system's driver was asked for before: " << opened.status().message();
    ContextOptions options;
    options.cache_dir = scratch / "cache";
    options.user_tables = false;
    context = *ContextImpl::create(options, all_operators());
  }

  test::ScratchFolder scratch;
  std::unique_ptr<ContextImpl> context;
};

TEST_F(CudaContextTest, ADeviceIsOpenedByItsFirstUseAndOnce) {
  EXPECT_EQ(fake->retained, 0);
  const Result<OpenDevice*> first = context->open_device("gemm", {DeviceKind::kCuda, 1});
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(fake->retained, 1);
  EXPECT_EQ(*context->open_device("gemm", {DeviceKind::kCuda, 1}), *first);
  EXPECT_NE(*context->open_device("gemm", {DeviceKind::kCuda, 0}), *first);
  EXPECT_EQ(fake->retained, 2);
  EXPECT_EQ(to_string((*first)->device->spec().id), "cuda:1");
  context.reset();
  EXPECT_EQ(fake->retained, 0);
}

TEST_F(CudaContextTest, ADeviceThatIsNotThereIsRefusedWithTheReason) {
  const auto refusal = [&](DeviceKind kind, int index) {
    const Status status = context->open_device("gemm", {kind, index}).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    return status.message();
  };
  EXPECT_THAT(refusal(DeviceKind::kCuda, 2), AllOf(HasSubstr("gemm: tensors are on cuda:2"), HasSubstr("sees 2 CUDA")));
  EXPECT_THAT(refusal(DeviceKind::kCuda, 64), HasSubstr("allowed: the first 64 of a kind"));
  EXPECT_THAT(refusal(DeviceKind::kCuda, -1), HasSubstr("cuda:-1"));
  EXPECT_THAT(refusal(DeviceKind::kHip, 0), HasSubstr("hip:0"));
}

TEST_F(CudaContextTest, ADeviceThatFailedToOpenIsTriedAgain) {
  fake->failures["cuDevicePrimaryCtxRetain"] = 46;
  EXPECT_THAT(context->open_device("gemm", {DeviceKind::kCuda, 0}).status().message(),
              HasSubstr("primary context: CUDA_ERROR_FAKE (46)"));
  EXPECT_TRUE(context->open_device("gemm", {DeviceKind::kCuda, 0}).ok());
}

TEST_F(CudaContextTest, ToolsWorkOnTheSelectedDevice) {
  EXPECT_EQ(to_string(context->device().spec().id), "cpu");
  ASSERT_TRUE(context->select_device({DeviceKind::kCuda, 0}).ok());
  EXPECT_EQ(to_string(context->device().spec().id), "cuda:0");
  EXPECT_EQ(context->spec(100).units, 100);
  EXPECT_EQ(context->spec(0).units, 132);
  EXPECT_FALSE(context->select_device({DeviceKind::kCuda, 9}).ok());
  EXPECT_EQ(to_string(context->device().spec().id), "cuda:0");
}

TEST_F(CudaContextTest, FamiliesOfTheCpuRefuseAGpuWithTheReason) {
  const Operator& op = gemm_operator();
  const auto problem = *op.parse_problem("m=16:n=64:k=64:a=bf16");
  ASSERT_TRUE(context->select_device({DeviceKind::kCuda, 0}).ok());
  for (const KernelFamily* family : op.families()) {
    if (family->builtin_keys("x86-64").empty() && family->builtin_keys("x86-64-v4").empty()) continue;
    EXPECT_THAT(family->supports(problem, context->spec(0)).message(),
                AllOf(HasSubstr(std::string(family->name())), HasSubstr("runs on cpu, not on cuda:0")));
  }
}

}  // namespace
}  // namespace tilewright
