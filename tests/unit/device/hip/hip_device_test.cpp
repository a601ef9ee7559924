// SPDX-License-Identifier: MIT
// What a HIP device asks of HIP: code, launches, memory.
#include <cstring>
#include <numeric>
#include <thread>

#include "unit/device/hip/fake_hip_device.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HipDeviceTest : public test::FakeHipTest {
 protected:
  void SetUp() override {
    test::FakeHipTest::SetUp();
    device = open();
    std::iota(reinterpret_cast<char*>(args), reinterpret_cast<char*>(args) + sizeof(args), 'a');
  }
  std::shared_ptr<const LoadedKernel> load() const {
    auto kernel = device->load(code_object());
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel ? *kernel : nullptr;
  }
  static LaunchShape shape() { return {.grid = {8, 4, 1}, .threads = 128}; }

  std::unique_ptr<Device> device;
  std::byte args[32];
};

TEST_F(HipDeviceTest, CodeForAnotherTargetNeverReachesHip) {
  for (const char* target : {"gfx90a", "gfx950", "gfx1100", "sm_90a", "x86-64"}) {
    Artifact other = code_object();
    other.target = target;
    const Status status = device->load(other).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(target), HasSubstr("'gfx942'"), HasSubstr(other.key)));
  }
  Artifact emulated = code_object();
  emulated.kind = ArtifactKind::kEmulated;
  EXPECT_THAT(device->load(emulated).status().message(), HasSubstr("is no AMD code object"));
  EXPECT_EQ(calls("hipModuleLoadData"), 0);
}

// What an artifact is called and what is in it are two things.
TEST_F(HipDeviceTest, TheCodeItselfIsLookedAtBeforeItIsLoaded) {
  const auto refusal = [&](const Artifact& artifact, StatusCode code) {
    const Status status = device->load(artifact).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("hip:0: loading"), HasSubstr(artifact.key)));
    return status.message();
  };
  const auto made_for = [&](uint32_t flags, const std::string& target) {
    return refusal(code_object({.flags = flags, .target = "amdgcn-amd-amdhsa--" + target}), StatusCode::kUnsupported);
  };
  EXPECT_THAT(made_for(0x54F, "gfx950"), HasSubstr("made for gfx950, the device is gfx942:sramecc+:xnack-"));
  EXPECT_THAT(made_for(0x74C, "gfx942:xnack+"), HasSubstr("made for gfx942:xnack+"));
  EXPECT_THAT(made_for(0x94C, "gfx942:sramecc-"), HasSubstr("made for gfx942:sramecc-"));
  Artifact damaged = code_object();
  damaged.image.resize(damaged.image.size() / 2);
  refusal(damaged, StatusCode::kCorrupt);
  Artifact entry = code_object();
  entry.entry = "another_entry";
  EXPECT_THAT(refusal(entry, StatusCode::kNotFound), HasSubstr("no entry 'another_entry'"));
  Artifact file = code_object();
  file.image.clear();
  file.path = "/no/such/file.hsaco";
  EXPECT_THAT(refusal(file, StatusCode::kIoError), HasSubstr("/no/such/file.hsaco"));
  EXPECT_EQ(calls("hipModuleLoadData"), 0);
  EXPECT_TRUE(device->load(code_object({.flags = 0x64C, .target = "amdgcn-amd-amdhsa--gfx942:xnack-"})).ok());
}

TEST_F(HipDeviceTest, CodeIsUnloadedWithItsKernel) {
  auto kernel = load();
  EXPECT_EQ(fake->live_modules, 1);
  kernel.reset();
  EXPECT_EQ(fake->live_modules, 0);
}

TEST_F(HipDeviceTest, ErrorsOfLoadingCarryHipsNameAndTextAndTheKernelsKey) {
  for (const char* function : {"hipModuleLoadData", "hipModuleGetFunction"}) {
    fake->failures[function] = 209;
    const Status status = device->load(code_object()).status();
    EXPECT_EQ(status.code(), StatusCode::kDeviceError);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("hip:0"), HasSubstr(code_object().key),
                                        HasSubstr("hipErrorNoBinaryForGpu (209): as the test wanted")));
  }
  EXPECT_EQ(fake->live_modules, 0);
}

TEST_F(HipDeviceTest, ALaunchPassesShapeStreamAndTheWholeArgumentBlock) {
  void* stream = nullptr;
  ASSERT_EQ(driver->create_stream(&stream, gpu::kStreamNonBlocking), 0);
  LaunchShape wanted = shape();
  wanted.shared_bytes = 60000;
  wanted.programmatic_edge = true;  // which AMD GPUs do not have: a plain edge
  const Status status = device->launch(*load(), args, wanted, {.stream = stream, .programmatic_edge = true});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(fake->launches.size(), 1u);
  const auto& made = fake->launches[0];
  EXPECT_THAT(made.grid, testing::ElementsAre(8, 4, 1));
  EXPECT_EQ(made.threads, 128u);
  EXPECT_EQ(made.lds_bytes, 60000u);
  EXPECT_EQ(made.stream, stream);
  EXPECT_EQ(made.args, std::string(reinterpret_cast<char*>(args), sizeof(args)));
  driver->destroy_stream(stream);
}

TEST_F(HipDeviceTest, ImpossibleLaunchesAreRefusedWithTheValueAndTheLimit) {
  fake->static_lds = 512, fake->max_threads = 256;
  const auto kernel = load();
  const auto refusal = [&](auto change) {
    LaunchShape wanted = shape();
    change(wanted);
    const Status status = device->launch(*kernel, args, wanted, {});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(code_object().key));
    return status.message();
  };
  EXPECT_THAT(refusal([](LaunchShape& s) { s.shared_bytes = 65025; }),
              HasSubstr("65025 bytes of dynamic LDS, allowed: at most 65024 (512 are static)"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.threads = 257; }),
              HasSubstr("257 work-items a workgroup, allowed: 1 .. 256"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.threads = 0; }), HasSubstr("0 work-items"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.cluster = {2, 1, 1}; }), HasSubstr("clusters"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.grid = {8, 0, 1}; }), HasSubstr("grid[1] = 0"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.grid = {1u << 25, 1, 1}; }),
              HasSubstr("grid[0] = 33554432, allowed: 1 .. 33554431"));
  EXPECT_TRUE(fake->launches.empty());
  const Status status = device->launch(*kernel, std::span(args).first(8), shape(), {});
  EXPECT_THAT(status.message(), HasSubstr("8 bytes of arguments, the kernel takes 32"));
}

TEST_F(HipDeviceTest, AFailedLaunchNamesHipTheKernelAndItsShape) {
  fake->failures["hipModuleLaunchKernel"] = 719;
  const Status status = device->launch(*load(), args, shape(), {});
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(code_object().key), HasSubstr("grid 8 x 4 x 1"), HasSubstr("128 work-items"),
                    HasSubstr("hipErrorFake (719): as the test wanted")));
}

TEST_F(HipDeviceTest, AKernelOfAnotherDeviceIsRefused) {
  auto second = open(1);
  EXPECT_THAT(second->launch(*load(), args, shape(), {}).message(),
              HasSubstr("hip:1: launch: the kernel was loaded by hip:0"));
  const auto cpu = make_cpu_device(1);
  EXPECT_FALSE(cpu->launch(*load(), args, shape(), {}).ok());
}

TEST_F(HipDeviceTest, EachCallRunsOnItsDeviceAndLeavesTheCallersCurrent) {
  auto second = open(1);
  const auto kernel = *second->load(code_object());
  ASSERT_TRUE(second->launch(*kernel, args, shape(), {}).ok());
  EXPECT_EQ(fake->launches.at(0).device, 1);
  const auto current = [&] {
    int index = -1;
    driver->hipGetDevice(&index);
    return index;
  };
  EXPECT_EQ(current(), 0);
  std::thread([&] {
    driver->hipSetDevice(1);
    EXPECT_TRUE(device->synchronize().ok());
    const Result<void*> memory = device->allocate(64);
    ASSERT_TRUE(memory.ok());
    device->deallocate(*memory, 64);
    EXPECT_EQ(current(), 1);
  }).join();
}

TEST_F(HipDeviceTest, ALaunchDoesNotAllocateSynchroniseOrMakeStreams) {
  const auto kernel = load();
  fake->calls.clear();
  ASSERT_TRUE(device->launch(*kernel, args, shape(), {}).ok());
  EXPECT_THAT(fake->calls, testing::ElementsAre("hipModuleLaunchKernel"));
}

TEST_F(HipDeviceTest, DataGoesToTheDeviceAndBack) {
  Result<void*> memory = device->allocate(64);
  ASSERT_TRUE(memory.ok());
  char back[64] = {};
  EXPECT_TRUE(device->fill(*memory, 7, 64).ok());
  EXPECT_TRUE(device->copy_from_host(static_cast<char*>(*memory) + 4, "tiles", 5).ok());
  EXPECT_TRUE(device->copy_to_host(back, *memory, 64).ok());
  EXPECT_EQ(std::string(back, 10), "\a\a\a\atiles\a");
  EXPECT_FALSE(device->host_memory());
  EXPECT_GT(device->available_memory(), 0);
  device->deallocate(*memory, 64);
  EXPECT_EQ(fake->live_allocations, 0);
  EXPECT_EQ(device->allocate(-1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HipDeviceTest, AFaultOfAKernelComesOutOfTheNextWait) {
  fake->failures["hipDeviceSynchronize"] = 700;
  EXPECT_THAT(device->synchronize().message(),
              HasSubstr("hip:0: waiting for its kernels: hipErrorIllegalAddress (700)"));
  fake->failures["hipMalloc"] = 2;
  EXPECT_EQ(device->allocate(8).status().code(), StatusCode::kOutOfMemory);
}

TEST_F(HipDeviceTest, LimitsAreRefusedAndThePowerStateIsTheHighestClock) {
  EXPECT_THAT(device->measure_limits(1, {}).status().message(), HasSubstr("hip:0: limits are not measured"));
  EXPECT_EQ(device->power_state(), "max_clock=2100");
  EXPECT_EQ(device->encode_tensor_map({}, nullptr).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tilewright
