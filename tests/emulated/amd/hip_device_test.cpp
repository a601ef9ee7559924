// SPDX-License-Identifier: MIT
// The HIP device layer with kernels that run: on the fake HIP library, which takes emulated objects.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "device/hip/hip_device.hpp"
#include "dispatch/context_impl.hpp"
#include "jit/amdgcn/emulated_compiler.hpp"
#include "jit/system/files.hpp"
#include "ops/op_list.hpp"
#include "support/sanitizer.hpp"
#include "tilewright/gemm.hpp"
#include "unit/device/hip/fake_hip_device.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSource = R"(
typedef unsigned u32;
struct Args { const u32* in; u32* out; u32 count; };
// out[i] = 3 in[i] + i
void scale(Args a) {
  const u32 i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
  if (i < a.count) a.out[i] = 3 * a.in[i] + i;
}
TILEWRIGHT_EMULATED_ENTRY(run_scale, scale)
// Neighbours meet in LDS, and nobody waits.
void race(Args a) {
  TILEWRIGHT_DYNAMIC_LDS(bytes);
  u32* lds = reinterpret_cast<u32*>(bytes);
  const u32 i = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x();
  lds[i] = a.in[i];
  a.out[i] = lds[n - 1 - i];
}
TILEWRIGHT_EMULATED_ENTRY(run_race, race)
)";

struct Args {
  const void* in;
  void* out;
  uint32_t count;
};

Result<Artifact> compile(const std::string& target, const std::string& entry) {
  CompileRequest request;
  request.name = "hip_test";
  request.source = kSource;
  request.target = target;
  request.entry = entry;
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder / "object");
  Result<std::string> file = emulated_compiler().compile(request, folder / "object", nullptr);
  if (!file) return file.status();
  const Result<std::string> code = read_file(folder / "object/" + *file);
  if (!code) return code.status();
  Artifact artifact;
  artifact.kind = ArtifactKind::kEmulated;
  artifact.target = target;
  artifact.entry = entry;
  artifact.key = "toy/hip/" + entry;
  const auto bytes = std::as_bytes(std::span(*code));
  artifact.image.assign(bytes.begin(), bytes.end());
  return artifact;
}

class HipEmulated : public test::FakeHipTest {
 protected:
  static constexpr uint32_t kCount = 1000;

  void SetUp() override {
    if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow fibers";
    test::FakeHipTest::SetUp();
    driver->emulated = true;
    device = open();
    in = memory(*device, kCount * 4);
    out = memory(*device, kCount * 4);
  }
  void TearDown() override {
    if (device == nullptr) return;
    device->deallocate(in, kCount * 4);
    device->deallocate(out, kCount * 4);
  }
  static void* memory(Device& on, int64_t bytes) {
    Result<void*> made = on.allocate(bytes);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made ? *made : nullptr;
  }
  std::shared_ptr<const LoadedKernel> load(Device& on, const std::string& entry) const {
    const Result<Artifact> artifact = compile("gfx942", entry);
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    auto kernel = on.load(*artifact);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel ? *kernel : nullptr;
  }
  Status launch(const LoadedKernel& kernel, uint32_t count = kCount, void* stream = nullptr, uint32_t grid = 16) const {
    const Args args{in, out, count};
    const LaunchShape shape{.grid = {grid, 1, 1}, .threads = 64, .shared_bytes = 1024};
    return device->launch(kernel, std::as_bytes(std::span(&args, 1)), shape, {.stream = stream});
  }
  void give(uint32_t first) const {
    std::vector<uint32_t> data(kCount);
    for (uint32_t i = 0; i < kCount; ++i) data[i] = first + i * i;
    EXPECT_TRUE(device->copy_from_host(in, data.data(), kCount * 4).ok());
  }
  int wrong(uint32_t first) const {
    std::vector<uint32_t> data(kCount);
    const Status status = device->copy_to_host(data.data(), out, kCount * 4);
    EXPECT_TRUE(status.ok()) << status.message();
    int count = 0;
    for (uint32_t i = 0; i < kCount; ++i) count += data[i] != 3 * (first + i * i) + i;
    return count;
  }

  std::unique_ptr<Device> device;
  void *in = nullptr, *out = nullptr;
};

TEST_F(HipEmulated, AKernelRuns) {
  const auto kernel = load(*device, "run_scale");
  give(7);
  ASSERT_TRUE(launch(*kernel).ok());
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ(wrong(7), 0);
}

TEST_F(HipEmulated, ACapturedLaunchIsReplayedWithChangedData) {
  const auto kernel = load(*device, "run_scale");
  void* stream = nullptr;
  ASSERT_EQ(driver->create_stream(&stream, gpu::kStreamNonBlocking), 0);
  ASSERT_EQ(driver->begin_capture(stream, gpu::CaptureMode::kGlobal), 0);
  EXPECT_TRUE(launch(*kernel, kCount, stream).ok());
  gpu::Graph graph = nullptr;
  gpu::GraphExec exec = nullptr;
  ASSERT_EQ(driver->end_capture(stream, &graph), 0);
  ASSERT_EQ(driver->instantiate(&exec, graph, 0), 0);
  EXPECT_TRUE(fake->launches.empty());
  for (const uint32_t first : {1u, 500u}) {
    give(first);
    ASSERT_EQ(driver->launch_graph(exec, stream), 0);
    ASSERT_EQ(driver->synchronize_stream(stream), 0);
    EXPECT_EQ(wrong(first), 0);
  }
  driver->destroy_graph_exec(exec);
  driver->destroy_graph(graph);
  driver->destroy_stream(stream);
}

TEST_F(HipEmulated, WhatTheEmulationFindsComesOutOfTheNextWait) {
  const auto scale = load(*device, "run_scale"), race = load(*device, "run_race");
  EXPECT_TRUE(launch(*scale).ok()) << "nothing was written to `in`";
  EXPECT_THAT(device->synchronize().message(),
              AllOf(HasSubstr("hip:0: waiting for its kernels: hipErrorIllegalAddress (700)"),
                    HasSubstr("uninitialised_global: run_scale")));
  EXPECT_TRUE(device->synchronize().ok()) << "told once";
  give(1);
  EXPECT_TRUE(launch(*scale, kCount + 1).ok());
  char byte = 0;
  EXPECT_THAT(device->copy_to_host(&byte, out, 1).message(),
              AllOf(HasSubstr("hip:0: copy to the host"), HasSubstr("global_out_of_bounds: run_scale")));
  const Args args{in, out, kCount};
  EXPECT_TRUE(device
                  ->launch(*race, std::as_bytes(std::span(&args, 1)),
                           {.grid = {1, 1, 1}, .threads = 256, .shared_bytes = 1024}, {})
                  .ok());
  EXPECT_THAT(device->synchronize().message(), HasSubstr("lds_race: run_race"));
}

TEST_F(HipEmulated, AnotherDevicesMemoryIsOutOfBounds) {
  const auto second = open(1);
  const auto kernel = load(*second, "run_scale");
  give(1);
  const Args args{in, out, kCount};
  EXPECT_TRUE(
      second->launch(*kernel, std::as_bytes(std::span(&args, 1)), {.grid = {16, 1, 1}, .threads = 64}, {}).ok());
  EXPECT_TRUE(device->synchronize().ok());
  EXPECT_THAT(second->synchronize().message(), HasSubstr("global_out_of_bounds"));
}

TEST_F(HipEmulated, AnObjectOfAnotherTargetIsRefused) {
  Result<Artifact> other = compile("gfx1100", "run_scale");
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_THAT(device->load(*other).status().message(),
              HasSubstr("code for target 'gfx1100', this device runs 'gfx942'"));
  other->target = "gfx942";
  EXPECT_THAT(device->load(*other).status().message(), HasSubstr("hipErrorNoBinaryForGpu (209)"));
}

TEST_F(HipEmulated, ATimedGraphRunsItsKernels) {
  const auto kernel = load(*device, "run_scale");
  give(3);
  const auto call = [&](int, const LaunchContext& context) { return launch(*kernel, kCount, context.stream); };
  Result<std::unique_ptr<Burst>> burst = device->make_burst(call, 0, 2);
  ASSERT_TRUE(burst.ok()) << burst.status().message();
  const Result<double> us = (*burst)->run();
  ASSERT_TRUE(us.ok()) << us.status().message();
  EXPECT_GT(*us, 0);
  EXPECT_EQ(wrong(3), 0);
}

// The process opens HIP once: a process of its own, where nobody did so before.
class HipEmulatedContext : public HipEmulated {
 protected:
  void SetUp() override {
    HipEmulated::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    setenv("TILEWRIGHT_HIP_DRIVER", test::kFakeHip.c_str(), 1);
    const Result<const hip::Driver*> opened = hip::driver();
    if (!opened || !(*opened)->emulated) GTEST_SKIP() << "the system's HIP was asked for before";
    ContextOptions options;
    options.cache_dir = scratch / "cache";
    options.user_tables = false;
    context = *Context::create(options);
  }
  void TearDown() override {
    context.reset();
    HipEmulated::TearDown();
  }
  test::ScratchFolder scratch;
  std::unique_ptr<Context> context;
};

TEST_F(HipEmulatedContext, AGemmIsCompiledLoadedAndRunOnEachDevice) {
  constexpr int64_t kM = 37, kN = 48, kK = 64;
  std::vector<float> a(kM * kK), b(kK * kN), d(kM * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5);
  for (const int index : {1, 0}) {
    const DeviceId id{DeviceKind::kHip, index};
    const Result<OpenDevice*> opened = context->impl().open_device("gemm", id);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    Device& on = *(*opened)->device;
    void* const data[] = {memory(on, kM * kK * 4), memory(on, kK * kN * 4), memory(on, kM * kN * 4)};
    ASSERT_TRUE(on.copy_from_host(data[0], a.data(), kM * kK * 4).ok());
    ASSERT_TRUE(on.copy_from_host(data[1], b.data(), kK * kN * 4).ok());
    GemmCall call;
    call.a = TensorView::contiguous(data[0], DType::kF32, {kM, kK}, id);
    call.b = TensorView::contiguous(data[1], DType::kF32, {kK, kN}, id);
    call.d = TensorView::contiguous(data[2], DType::kF32, {kM, kN}, id);
    const Status status = gemm(*context, call);
    ASSERT_TRUE(status.ok()) << status.message();
    const Status copied = on.copy_to_host(d.data(), data[2], kM * kN * 4);
    ASSERT_TRUE(copied.ok()) << copied.message();
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kK; ++k) sum += static_cast<double>(a[i * kK + k]) * b[k * kN + j];
        ASSERT_EQ(d[i * kN + j], sum) << i << ", " << j;
      }
    }
    for (void* const memory : data) on.deallocate(memory, 0);
  }
}

TEST_F(HipEmulatedContext, ADeviceThatIsNotThereIsRefusedWithTheReason) {
  EXPECT_THAT(context->impl().open_device("gemm", {DeviceKind::kHip, 2}).status().message(),
              AllOf(HasSubstr("gemm: tensors are on hip:2"), HasSubstr("this process sees 2 HIP devices")));
}

}  // namespace
}  // namespace tilewright
