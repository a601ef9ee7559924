// SPDX-License-Identifier: MIT
// Finding the driver, and what is made of the devices that it names.
#include <fstream>

#include "device/cuda/device_info.hpp"
#include "device/gpu/gpu_device.hpp"
#include "unit/device/cuda/fake_device.hpp"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CudaDriverTest : public test::FakeCudaTest {
 protected:
  Status refused(int index = 0) const { return cuda::make_device(*driver, index).status(); }
};

TEST_F(CudaDriverTest, AMissingLibraryAndOneThatIsNoDriverAreNamed) {
  const Status missing = cuda::open_driver("libno_such_driver.so.1").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("libno_such_driver.so.1"));
  const Status other = cuda::open_driver("libm.so.6").status();
  EXPECT_EQ(other.code(), StatusCode::kUnsupported);
  EXPECT_THAT(other.message(), HasSubstr("without cuInit"));
}

TEST_F(CudaDriverTest, ADriverThatIsTooOldIsRefusedWithItsVersion) {
  fake->version = 11080;
  EXPECT_THAT(cuda::open_driver(test::kFakeCuda).status().message(),
              HasSubstr("a driver for CUDA 11.8; allowed: at least 12.0"));
}

TEST_F(CudaDriverTest, WhatCuInitSaysReachesTheUser) {
  fake->failures["cuInit"] = 100;
  const Status status = cuda::open_driver(test::kFakeCuda).status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_EQ(status.message(), "cuda: cuInit: CUDA_ERROR_FAKE (100): as the test wanted");
}

TEST_F(CudaDriverTest, TheSpecIsWhatTheDriverTells) {
  const DeviceSpec spec = open(1)->spec();
  EXPECT_EQ(spec.id, (DeviceId{DeviceKind::kCuda, 1}));
  EXPECT_EQ(spec.name, "NVIDIA H200");
  EXPECT_EQ(spec.part, "h200");
  ASSERT_NE(spec.arch, nullptr);
  EXPECT_EQ(spec.arch->target, "sm_90a");
  EXPECT_THAT(spec.targets, ElementsAre(find_arch("sm_90a")));
  EXPECT_EQ(spec.units, 132);
  EXPECT_EQ(spec.l2_bytes, 50 << 20);
  EXPECT_DOUBLE_EQ(spec.clock_ghz, 1.98);
}

TEST_F(CudaDriverTest, EveryCapabilityThatRunsACompiledTargetHasIt) {
  EXPECT_EQ(cuda::target_of_capability(8, 0), "sm_80");
  EXPECT_EQ(cuda::target_of_capability(8, 6), "sm_80");
  EXPECT_EQ(cuda::target_of_capability(8, 9), "sm_80");
  EXPECT_EQ(cuda::target_of_capability(9, 0), "sm_90a");
  EXPECT_EQ(cuda::target_of_capability(7, 5), "");
  EXPECT_EQ(cuda::target_of_capability(10, 0), "");
}

TEST_F(CudaDriverTest, ACapabilityWithoutATargetIsRefusedWithTheTargets) {
  fake->major = 10, fake->name = "NVIDIA B200";
  const Status status = refused();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("'NVIDIA B200' has compute capability 10.0"));
  EXPECT_THAT(status.message(), HasSubstr("sm_80, sm_90a"));
  EXPECT_EQ(fake->retained, 0);
}

TEST_F(CudaDriverTest, PartsAreToldApartByTheirMarketingNames) {
  EXPECT_EQ(gpu::part_of_name("NVIDIA H100 80GB HBM3"), "h100_sxm");
  EXPECT_EQ(gpu::part_of_name("NVIDIA H100 PCIe"), "h100_pcie");
  EXPECT_EQ(gpu::part_of_name("NVIDIA A100-SXM4-80GB"), "a100_sxm_80gb");
  EXPECT_EQ(gpu::part_of_name("NVIDIA H20 (rev. 2)"), "nvidia_h20_rev_2");  // one that the table does not know
}

TEST_F(CudaDriverTest, ThePrimaryContextIsGivenBackWithTheDevice) {
  auto device = open();
  EXPECT_EQ(fake->retained, 1);
  device.reset();
  EXPECT_EQ(fake->retained, 0);
}

}  // namespace
}  // namespace tilewright
