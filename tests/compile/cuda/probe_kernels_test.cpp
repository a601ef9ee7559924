// SPDX-License-Identifier: MIT
// The kernels that measure a GPU, and those that make a problem's data on it, compile without a GPU: with the instructions
// that they are named after, and without spills, which would be measured instead.
#include <set>

#include "dispatch/instance/device_data.hpp"
#include "jit/compiler.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "unit/device/cuda/fake_device.hpp"

namespace tilewright {
namespace {

class ProbeKernels : public test::FakeCudaTest {
 protected:
  void SetUp() override {
    test::FakeCudaTest::SetUp();
    if (Status status = nvrtc_compiler().available(); !status) GTEST_SKIP() << status.message();
    fake->arg_bytes = 0;  // not told, so not compared
    fake->max_threads = 1024;
    fake->free_bytes = size_t{64} << 20;
  }
  // Compiles in earnest, remembers what came out.
  Result<Artifact> compile(const std::string& source, const std::string& entry, std::string_view target) {
    Result<Artifact> artifact = compile_probe(source, entry, target);
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    if (!artifact) return artifact;
    const Result<CubinInfo> info = read_cubin(artifact->image);
    EXPECT_TRUE(info.ok()) << info.status().message();
    if (info && info->kernels.size() == 1) made[entry] = info->kernels.front();
    return artifact;
  }
  ProbeCompiler compiler() {
    return [this](const std::string& source, const std::string& entry, std::string_view target) {
      return compile(source, entry, target);
    };
  }

  std::map<std::string, CubinKernel> made;
};

TEST_F(ProbeKernels, OfHopperMultiplyByWgmmaFromRegistersAndSharedMemoryAlone) {
  ASSERT_TRUE(open()->measure_limits(0.001, compiler()).ok());
  for (const auto& [entry, instruction] : {std::pair{"tw_probe_wgmma_bf16", Sass::kWgmmaFloat},
                                           {"tw_probe_wgmma_e4m3", Sass::kWgmmaFp8},
                                           {"tw_probe_wgmma_i8", Sass::kWgmmaInt}}) {
    ASSERT_TRUE(made.contains(entry)) << entry;
    EXPECT_GT(made[entry].count(instruction), 0) << entry;
  }
  for (const auto& [entry, kernel] : made) EXPECT_EQ(kernel.local_bytes, 0) << entry;
}

TEST_F(ProbeKernels, OfOtherCapabilitiesMultiplyByMmaSync) {
  fake->major = 8;
  ASSERT_TRUE(open()->measure_limits(0.001, compiler()).ok());
  ASSERT_TRUE(made.contains("tw_probe_mma_bf16") && made.contains("tw_probe_mma_i8"));
  EXPECT_GT(made["tw_probe_mma_bf16"].count(Sass::kMmaFloat), 0);
  EXPECT_GT(made["tw_probe_mma_i8"].count(Sass::kMmaInt), 0);
  for (const auto& [entry, kernel] : made) EXPECT_EQ(kernel.local_bytes, 0) << entry;
}

TEST_F(ProbeKernels, DataOfAProblemIsMadeOnEveryTarget) {
  for (const int major : {8, 9}) {
    fake->major = major;
    const std::unique_ptr<Device> device = open();
    EXPECT_TRUE(DeviceData::make(*device, compiler()).ok());
  }
  EXPECT_TRUE(made.contains("tw_instance_data"));
}

}  // namespace
}  // namespace tilewright
