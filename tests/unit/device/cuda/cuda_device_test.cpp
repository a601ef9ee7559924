// SPDX-License-Identifier: MIT
// What a CUDA device asks of its driver: code, launches, memory, workspaces, timed graphs.
#include <cstring>
#include <numeric>
#include <thread>

#include "unit/device/cuda/fake_device.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CudaDeviceTest : public test::FakeCudaTest {
 protected:
  void SetUp() override {
    test::FakeCudaTest::SetUp();
    device = open();
    std::iota(reinterpret_cast<char*>(args), reinterpret_cast<char*>(args) + sizeof(args), 'a');
  }
  void TearDown() override {
    device.reset();
    test::FakeCudaTest::TearDown();
  }
  std::shared_ptr<const LoadedKernel> load() const {
    auto kernel = device->load(cubin());
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel ? *kernel : nullptr;
  }
  static LaunchShape shape() { return {.grid = {8, 4, 1}, .threads = 128}; }
  Status launch(const LaunchShape& shape) const { return device->launch(*load(), args, shape, {}); }

  std::unique_ptr<Device> device;
  std::byte args[16];
};

TEST_F(CudaDeviceTest, CodeForAnotherTargetNeverReachesTheDriver) {
  for (const char* target : {"sm_80", "x86-64", "gfx942", "sm_100a"}) {
    const Status status = device->load(cubin(target)).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(target), HasSubstr("'sm_90a'"), HasSubstr(cubin().key)));
  }
  Artifact host = cubin();
  host.kind = ArtifactKind::kHostObject;
  EXPECT_THAT(device->load(host).status().message(), HasSubstr("is no cubin"));
  EXPECT_EQ(calls("cuLibraryLoadData"), 0);
}

TEST_F(CudaDeviceTest, CodeIsLoadedAtOnceWithAllTheSharedMemoryAndUnloadedWithItsKernel) {
  fake->static_shared = 2000;
  auto kernel = load();
  EXPECT_EQ(calls("cuKernelGetFunction"), 1);  // which brings the code onto the device
  EXPECT_EQ(fake->function_attributes[8], 232448 - 2000);
  EXPECT_EQ(fake->function_attributes[14], 1);
  EXPECT_EQ(fake->live_libraries, 1);
  kernel.reset();
  EXPECT_EQ(fake->live_libraries, 0);
}

TEST_F(CudaDeviceTest, ErrorsOfLoadingCarryCudasNameAndTextAndTheKernelsKey) {
  for (const char* function : {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"}) {
    fake->failures[function] = 209;
    const Status status = device->load(cubin()).status();
    EXPECT_EQ(status.code(), StatusCode::kDeviceError);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("cuda:0"), HasSubstr(cubin().key),
                                        HasSubstr("CUDA_ERROR_FAKE (209): as the test wanted")));
  }
  EXPECT_EQ(fake->live_libraries, 0);
}

TEST_F(CudaDeviceTest, AKernelWithoutAFileIsNamed) {
  Artifact artifact = cubin();
  artifact.image.clear();
  artifact.path = "/no/such/file.cubin";
  EXPECT_THAT(device->load(artifact).status().message(), HasSubstr("/no/such/file.cubin"));
}

TEST_F(CudaDeviceTest, ALaunchPassesShapeStreamAndTheWholeArgumentBlock) {
  auto* const stream = reinterpret_cast<void*>(0x99);
  LaunchShape wanted = shape();
  wanted.shared_bytes = 200000;
  ASSERT_TRUE(device->launch(*load(), args, wanted, {.stream = stream}).ok());
  ASSERT_EQ(fake->launches.size(), 1u);
  const auto& made = fake->launches[0];
  EXPECT_EQ(made.config.grid_x, 8u);
  EXPECT_EQ(made.config.grid_y, 4u);
  EXPECT_EQ(made.config.grid_z, 1u);
  EXPECT_EQ(made.config.block_x, 128u);
  EXPECT_EQ(made.config.block_y * made.config.block_z, 1u);
  EXPECT_EQ(made.config.shared_bytes, 200000u);
  EXPECT_EQ(static_cast<void*>(made.config.stream), stream);
  EXPECT_TRUE(made.attributes.empty());
  EXPECT_EQ(made.args, std::string(reinterpret_cast<char*>(args), sizeof(args)));
}

TEST_F(CudaDeviceTest, ClustersAndProgrammaticEdgesBecomeLaunchAttributes) {
  LaunchShape wanted = shape();
  wanted.cluster = {2, 4, 1};
  wanted.programmatic_edge = true;
  const LaunchContext leave{.programmatic_edge = true};
  ASSERT_TRUE(device->launch(*load(), args, wanted, leave).ok());
  const auto& attributes = fake->launches.at(0).attributes;
  ASSERT_EQ(attributes.size(), 2u);
  EXPECT_EQ(attributes[0].id, cuda::LaunchAttributeId::kClusterDimension);
  EXPECT_EQ(attributes[0].value.cluster.x, 2u);
  EXPECT_EQ(attributes[0].value.cluster.y, 4u);
  EXPECT_EQ(attributes[0].value.cluster.z, 1u);
  EXPECT_EQ(attributes[1].id, cuda::LaunchAttributeId::kProgrammaticStreamSerialization);
  EXPECT_EQ(attributes[1].value.programmatic_stream_serialization_allowed, 1);
}

TEST_F(CudaDeviceTest, BlocksThatWaitForEachOtherAreLaunchedTogetherOrNotAtAll) {
  LaunchShape wanted = shape();
  wanted.cluster = {2, 1, 1};
  wanted.programmatic_edge = wanted.cooperative = true;
  ASSERT_TRUE(device->launch(*load(), args, wanted, {.programmatic_edge = true}).ok());
  const auto& attributes = fake->launches.at(0).attributes;
  ASSERT_EQ(attributes.size(), 3u);
  EXPECT_EQ(attributes[2].id, cuda::LaunchAttributeId::kCooperative);
  EXPECT_EQ(attributes[2].value.cooperative, 1);
}

TEST_F(CudaDeviceTest, AProgrammaticEdgeNeedsAKernelThatWaitsAndTheCallersLeave) {
  LaunchShape wanted = shape();
  const LaunchContext leave{.programmatic_edge = true};
  ASSERT_TRUE(device->launch(*load(), args, wanted, leave).ok());
  wanted.programmatic_edge = true;
  ASSERT_TRUE(device->launch(*load(), args, wanted, {}).ok());
  EXPECT_TRUE(fake->launches.at(0).attributes.empty()) << "a kernel that does not wait";
  EXPECT_TRUE(fake->launches.at(1).attributes.empty()) << "a caller that did not ask";
}

TEST_F(CudaDeviceTest, ImpossibleLaunchesAreRefusedWithTheValueAndTheLimit) {
  const auto refusal = [&](auto change) {
    LaunchShape wanted = shape();
    change(wanted);
    const Status status = launch(wanted);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(cubin().key));
    return status.message();
  };
  EXPECT_THAT(refusal([](LaunchShape& s) { s.shared_bytes = 232449; }), HasSubstr("232449 bytes of dynamic shared"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.threads = 385; }), HasSubstr("385 threads a block, allowed: 1 .. 384"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.threads = 0; }), HasSubstr("0 threads"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.cluster = {3, 1, 1}; }), HasSubstr("grid[0] = 8"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.grid = {8, 0, 1}; }), HasSubstr("grid[1] = 0"));
  EXPECT_THAT(refusal([](LaunchShape& s) { s.cluster = {8, 4, 1}; }), HasSubstr("clusters of 32 blocks"));
  EXPECT_TRUE(fake->launches.empty());
  const Status status = device->launch(*load(), std::span(args).first(8), shape(), {});
  EXPECT_THAT(status.message(), HasSubstr("8 bytes of arguments, the kernel takes 16"));
}

TEST_F(CudaDeviceTest, DevicesBeforeHopperRefuseClustersAndIgnoreEdges) {
  device.reset();
  fake->major = 8;
  device = open();
  auto kernel = *device->load(cubin("sm_80"));
  LaunchShape wanted = shape();
  wanted.programmatic_edge = true;
  EXPECT_TRUE(device->launch(*kernel, args, wanted, {.programmatic_edge = true}).ok());
  EXPECT_TRUE(fake->launches.at(0).attributes.empty());
  wanted.cluster = {2, 1, 1};
  EXPECT_THAT(device->launch(*kernel, args, wanted, {}).message(), HasSubstr("clusters of 2 blocks, allowed: 1"));
}

TEST_F(CudaDeviceTest, AFailedLaunchNamesCudaTheKernelAndItsShape) {
  fake->failures["cuLaunchKernelEx"] = 701;
  const Status status = launch(shape());
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(cubin().key), HasSubstr("grid 8 x 4 x 1"), HasSubstr("128 threads"),
                                      HasSubstr("CUDA_ERROR_FAKE (701): as the test wanted")));
}

TEST_F(CudaDeviceTest, AKernelOfAnotherDeviceIsRefused) {
  auto second = open(1);
  EXPECT_THAT(second->launch(*load(), args, shape(), {}).message(), HasSubstr("loaded by cuda:0"));
  const auto cpu = make_cpu_device(1);
  EXPECT_FALSE(cpu->launch(*load(), args, shape(), {}).ok());
}

TEST_F(CudaDeviceTest, ALaunchRunsInItsDevicesContextAndLeavesTheCallersCurrent) {
  auto second = open(1);
  const auto kernel = *second->load(cubin());
  auto* const callers = reinterpret_cast<cuda::CuContext>(0x1000);
  driver->cuCtxPushCurrent_v2(callers);
  ASSERT_TRUE(second->launch(*kernel, args, shape(), {}).ok());
  EXPECT_EQ(fake->launches.at(0).context, reinterpret_cast<cuda::CuContext>(0x1001));
  cuda::CuContext current = nullptr;
  driver->cuCtxGetCurrent(&current);
  EXPECT_EQ(current, callers);
  driver->cuCtxPopCurrent_v2(&current);
  // A thread that has none keeps none.
  std::thread([&] {
    EXPECT_TRUE(second->launch(*kernel, args, shape(), {}).ok());
    cuda::CuContext own = callers;
    driver->cuCtxGetCurrent(&own);
    EXPECT_EQ(own, nullptr);
  }).join();
}

TEST_F(CudaDeviceTest, ALaunchDoesNotAllocateSynchroniseOrMakeStreams) {
  const auto kernel = load();
  fake->calls.clear();
  ASSERT_TRUE(device->launch(*kernel, args, shape(), {}).ok());
  EXPECT_THAT(fake->calls, testing::ElementsAre("cuLaunchKernelEx"));
}

TEST_F(CudaDeviceTest, DataGoesToTheDeviceAndBack) {
  Result<void*> memory = device->allocate(64);
  ASSERT_TRUE(memory.ok());
  char back[64] = {};
  EXPECT_TRUE(device->fill(*memory, 7, 64).ok());
  EXPECT_TRUE(device->copy_from_host(static_cast<char*>(*memory) + 4, "tiles", 5).ok());
  EXPECT_TRUE(device->copy_to_host(back, *memory, 64).ok());
  EXPECT_EQ(std::string(back, 10), "\a\a\a\atiles\a");
  EXPECT_FALSE(device->host_memory());
  device->deallocate(*memory, 64);
  EXPECT_EQ(fake->live_allocations, 0);
  EXPECT_EQ(device->allocate(-1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CudaDeviceTest, AFaultOfAKernelComesOutOfTheNextWait) {
  fake->failures["cuCtxSynchronize"] = 700;
  EXPECT_THAT(device->synchronize().message(), HasSubstr("cuda:0: waiting for its kernels: CUDA_ERROR_FAKE (700)"));
  fake->failures["cuMemAlloc"] = 2;
  EXPECT_EQ(device->allocate(8).status().code(), StatusCode::kOutOfMemory);
}

TEST_F(CudaDeviceTest, EachStreamHasAWorkspaceThatGrowsAndFreesNothing) {
  auto* const one = reinterpret_cast<void*>(0x11);
  auto* const other = reinterpret_cast<void*>(0x22);
  const auto data = [&](int64_t bytes, void* stream) { return device->workspace(bytes, stream)->data; };
  void* const first = data(1000, one);
  EXPECT_EQ(data(2 << 20, one), first);  // blocks are no smaller than the driver's own
  EXPECT_NE(data(1000, other), first);
  void* const grown = data(3 << 20, one);
  EXPECT_NE(grown, first);
  EXPECT_EQ(data(4 << 20, one), grown);
  EXPECT_EQ(fake->live_allocations, 3);
  EXPECT_FALSE(fake->allocated_unrelaxed);  // while another stream is captured
  // A stream that has the address of one that is gone.
  fake->stream_ids[reinterpret_cast<cuda::CuStream>(one)] = 77;
  EXPECT_NE(data(1000, one), grown);
  device.reset();
  EXPECT_EQ(fake->live_allocations, 0);
}

TEST_F(CudaDeviceTest, EachStreamHasZerosThatGrowOnAStreamOfTheirOwn) {
  auto* const one = reinterpret_cast<void*>(0x11);
  auto* const other = reinterpret_cast<void*>(0x22);
  const auto zeros = [&](int64_t bytes, void* stream) {
    const Result<void*> got = device->zeros(bytes, stream);
    EXPECT_TRUE(got.ok()) << got.status().message();
    return got ? static_cast<char*>(*got) : nullptr;
  };
  char* const first = zeros(16384, one);
  EXPECT_EQ(zeros(2 << 20, one), first);  // kernels leave zeros behind, so the block serves again
  EXPECT_NE(zeros(16384, other), first);
  EXPECT_EQ(calls("cuStreamCreate"), 2);
  char* const grown = zeros(3 << 20, one);
  EXPECT_NE(grown, first);
  std::vector<char> back(4 << 20, 'x');
  ASSERT_TRUE(device->copy_to_host(back.data(), grown, 4 << 20).ok());
  EXPECT_EQ(std::count(back.begin(), back.end(), 0), 4 << 20);
  EXPECT_EQ(fake->live_allocations, 3);     // what captured graphs name stays
  EXPECT_FALSE(fake->allocated_unrelaxed);  // while another stream is captured
  fake->failures["cuMemAlloc"] = 2;
  EXPECT_EQ(device->zeros(16 << 20, one).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(zeros(100, one), grown);
  device.reset();
  EXPECT_EQ(fake->live_allocations, 0);
  EXPECT_EQ(make_cpu_device(1)->zeros(8, nullptr).status().code(), StatusCode::kUnsupported);
}

TEST_F(CudaDeviceTest, AKnownWorkspaceOfTheDefaultStreamAsksTheDriverNothing) {
  const auto asked = [&] { return fake->calls.size(); };
  const auto get = [&](void* stream) {
    const Result<Workspace> workspace = device->workspace(1000, stream);
    const Result<void*> zeros = device->zeros(500, stream);
    EXPECT_TRUE(workspace.ok() && zeros.ok());
    return std::pair(workspace->data, *zeros);
  };
  const auto first = get(nullptr), other = get(reinterpret_cast<void*>(0x11));
  EXPECT_NE(first.first, other.first);
  EXPECT_NE(first.second, other.second);
  const auto before = asked();
  EXPECT_EQ(get(nullptr), first);
  EXPECT_EQ(get(reinterpret_cast<void*>(0x1)), first);  // the same stream by its other name
  EXPECT_EQ(asked(), before);
  EXPECT_EQ(get(reinterpret_cast<void*>(0x11)), other);
  EXPECT_GT(asked(), before);
  device.reset();
  EXPECT_EQ(fake->live_allocations, 0);
}

TEST_F(CudaDeviceTest, WhatAStreamCapturesHasAWorkspaceAndZerosOfItsOwn) {
  auto* const stream = reinterpret_cast<void*>(0x11);
  const auto get = [&] { return std::pair(device->workspace(1000, stream)->data, *device->zeros(500, stream)); };
  const auto plain = get();
  fake->capturing = reinterpret_cast<cuda::CuStream>(stream);
  const auto ids = calls("cuStreamGetId");
  const auto captured = get();
  EXPECT_EQ(calls("cuStreamGetId"), ids);  // it would spoil the capture
  EXPECT_NE(captured.first, plain.first);
  EXPECT_NE(captured.second, plain.second);
  EXPECT_EQ(get(), captured);
  fake->capturing = nullptr;
  EXPECT_EQ(get(), plain);
  EXPECT_FALSE(fake->allocated_unrelaxed);
}

TEST_F(CudaDeviceTest, AWorkspaceIsHeldByOneCallAtATime) {
  Result<Workspace> held = device->workspace(100, nullptr);
  ASSERT_TRUE(held.ok());
  std::atomic<bool> got{false};
  std::thread second([&] {
    const Result<Workspace> waited = device->workspace(100, nullptr);
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(got);
  held->in_use.unlock();
  second.join();
  EXPECT_TRUE(got);
}

TEST_F(CudaDeviceTest, ATimedBurstIsOneGraphOfAllItsCalls) {
  std::vector<int> turns;
  const auto call = [&](int turn, const LaunchContext& context) {
    EXPECT_EQ(context.stream == nullptr, turns.empty()) << "captured on a stream of its own";
    turns.push_back(turn);
    return Status();
  };
  Result<std::unique_ptr<Burst>> burst = device->make_burst(call, 5, 4);
  ASSERT_TRUE(burst.ok()) << burst.status().message();
  EXPECT_THAT(turns, testing::ElementsAre(5, 5, 6, 7, 8));  // one before the capture
  const Result<double> us = (*burst)->run();
  ASSERT_TRUE(us.ok());
  EXPECT_DOUBLE_EQ(*us, 500);  // 2 ms of the fake's clock for four calls
  EXPECT_EQ(turns.size(), 5u);
  EXPECT_EQ(calls("cuGraphLaunch"), 1);
  fake->failures["cuEventSynchronize"] = 700;
  EXPECT_THAT((*burst)->run().status().message(), HasSubstr("timed graph: CUDA_ERROR_FAKE (700)"));
}

TEST_F(CudaDeviceTest, WhatADeviceHoldsIsGivenBackBeforeItsContext) {
  const auto call = [](int, const LaunchContext&) { return Status(); };
  ASSERT_TRUE(device->make_burst(call, 0, 1).ok());  // leaves a stream
  ASSERT_TRUE(device->workspace(1 << 20, nullptr).ok());
  device.reset();
  EXPECT_EQ(fake->live_allocations, 0);
  EXPECT_EQ(fake->retained, 0);
  EXPECT_FALSE(fake->used_after_release);
}

TEST_F(CudaDeviceTest, LimitsAreThoseOfTheBestBurstAndTheMemoryIsGivenBack) {
  fake->free_bytes = size_t{64} << 20;  // a quarter of it is used
  fake->arg_bytes = 0;                  // not told, so not compared
  fake->max_threads = 1024;
  std::vector<std::string> compiled;
  const auto compile = [&](const std::string& source, const std::string& entry, std::string_view target) {
    EXPECT_THAT(source, HasSubstr(entry));
    compiled.push_back(entry);
    return Result<Artifact>(cubin(std::string(target)));
  };
  const Result<DeviceLimits> limits = device->measure_limits(0.001, compile);
  ASSERT_TRUE(limits.ok()) << limits.status().message();
  EXPECT_THAT(compiled, testing::ElementsAre("tw_probe_copy", "tw_probe_read", "tw_probe_empty", "tw_probe_wgmma_bf16",
                                             "tw_probe_wgmma_e4m3", "tw_probe_wgmma_i8"));
  // Each burst of two calls takes 2 ms by the fake's clock.
  EXPECT_DOUBLE_EQ(limits->copy_gbps_all, 16 * 1048576 / 1e6);
  EXPECT_DOUBLE_EQ(limits->read_gbps_all, 16 * 1048576 / 1e6);
  EXPECT_GT(limits->read_gbps_unit, 0);
  EXPECT_DOUBLE_EQ(limits->graph_node_us, 2);
  EXPECT_GT(limits->launch_us, 0);
  // A launch of as many operations as take 16 ms at the nominal rate takes 2 ms.
  ASSERT_EQ(limits->peaks.size(), 3u);
  EXPECT_EQ(limits->peaks[0].mma, "wgmma_bf16");
  EXPECT_NEAR(limits->peaks[0].gflops_all, 8 * 4096 * 1.98 * 132, 1e4);
  EXPECT_NEAR(limits->peaks[0].gflops_sustained, limits->peaks[0].gflops_all, 1);
  EXPECT_NEAR(limits->peaks[0].gflops_unit * 132, limits->peaks[0].gflops_all, 1);
  EXPECT_NEAR(limits->peaks[1].gflops_all, 2 * limits->peaks[0].gflops_all, 2e4);
  EXPECT_EQ(fake->live_allocations, 0);

  const auto no_compiler = [](const std::string&, const std::string&, std::string_view) {
    return Result<Artifact>(Status(StatusCode::kNotFound, "no NVRTC"));
  };
  EXPECT_EQ(device->measure_limits(0.001, no_compiler).status().message(), "no NVRTC");
  EXPECT_EQ(fake->live_allocations, 0);
}

TEST_F(CudaDeviceTest, WithoutTheManagementLibraryThePowerStateIsTheHighestClock) {
  EXPECT_EQ(device->power_state(), "max_clock=1980");
}

TEST_F(CudaDeviceTest, ACallThatFailsInsideABurstSaysSoItself) {
  const auto call = [n = 0](int, const LaunchContext&) mutable {
    return ++n == 3 ? Status(StatusCode::kUnsupported, "third call") : Status();
  };
  EXPECT_EQ(device->make_burst(call, 0, 4).status().message(), "third call");
}

}  // namespace
}  // namespace tilewright
