// SPDX-License-Identifier: MIT
// The CUDA device on a GPU: streams, graphs, workspaces, threads and devices that are not current.
#include <thread>

#include "op/gpu/gpu_test.hpp"

namespace tilewright {
namespace {

using testing::Each;

// out[i] = in[i] * 2, through scratch memory when there is some.
struct DoubleArgs {
  const int* in;
  int* out;
  int* scratch;
  int count;
};
constexpr const char* kDouble = R"(
struct Args { const int* in; int* out; int* scratch; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) {
  for (int i = threadIdx.x; i < a.count; i += blockDim.x) {
    int value = a.in[i];
    if (a.scratch) { a.scratch[i] = value; value = a.scratch[i]; }
    a.out[i] = value * 2;
  }
}
)";
constexpr int kCount = 1000;
constexpr LaunchShape kShape{.threads = 256};

class GpuStreamsTest : public test::GpuTest {
 protected:
  static void fill(Device& on, const void* data, int value) {
    const std::vector<int> values(kCount, value);
    EXPECT_TRUE(on.copy_from_host(const_cast<void*>(data), values.data(), kCount * 4).ok());
  }
  static DoubleArgs make_args(Device& on) {
    return {static_cast<int*>(zeros(on, kCount * 4)), static_cast<int*>(zeros(on, kCount * 4)), nullptr, kCount};
  }
};

TEST_F(GpuStreamsTest, ACapturedLaunchIsReplayedWithChangedData) {
  const auto kernel = load(*device, kDouble);
  ASSERT_NE(kernel, nullptr);
  const DoubleArgs args = make_args(*device);
  const test::GpuStream stream(0);
  test::GpuGraph graph(stream);
  ASSERT_TRUE(launch(*device, *kernel, args, kShape, stream.launch()).ok());
  const Status captured = graph.end();
  ASSERT_TRUE(captured.ok()) << captured.message();
  EXPECT_THAT(read<int>(*device, args.out, kCount), Each(0)) << "captured, not run";
  for (const int value : {3, 11}) {
    fill(*device, args.in, value);
    ASSERT_TRUE(graph.replay());
    EXPECT_THAT(read<int>(*device, args.out, kCount), Each(2 * value));
  }
}

TEST_F(GpuStreamsTest, CodeIsLoadedAndWorkspaceGrowsWhileAStreamIsCaptured) {
  const Result<Artifact> artifact = compile(kDouble);
  ASSERT_TRUE(artifact.ok());
  DoubleArgs args = make_args(*device);
  const test::GpuStream stream(0);
  test::GpuGraph graph(stream);
  const auto kernel = device->load(*artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  {
    const Result<Workspace> workspace = device->workspace(kCount * 4, stream.get());
    ASSERT_TRUE(workspace.ok()) << workspace.status().message();
    args.scratch = static_cast<int*>(workspace->data);
    const Status launched = launch(*device, **kernel, args, kShape, stream.launch());
    ASSERT_TRUE(launched.ok()) << launched.message();
  }
  const Status captured = graph.end();
  ASSERT_TRUE(captured.ok()) << captured.message();
  // The block outlives the growth of a later call.
  ASSERT_NE(device->workspace(int64_t{64} << 20, stream.get())->data, args.scratch);
  fill(*device, args.in, 5);
  ASSERT_TRUE(graph.replay());
  EXPECT_THAT(read<int>(*device, args.out, kCount), Each(10));
}

TEST_F(GpuStreamsTest, ThreadsWithStreamsOfTheirOwnDoNotMeet) {
  const auto kernel = load(*device, kDouble);
  ASSERT_NE(kernel, nullptr);
  constexpr size_t kThreads = 8;
  std::vector<DoubleArgs> args;
  for (size_t i = 0; i < kThreads; ++i) {
    args.push_back(make_args(*device));
    fill(*device, args[i].in, static_cast<int>(i) + 1);
  }
  std::vector<Status> results(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {  // a thread without a context of its own
      const test::GpuStream stream(0);
      for (int turn = 0; turn < 50 && results[i]; ++turn) {
        Result<Workspace> workspace = device->workspace(kCount * 4 + turn * 100000, stream.get());
        if (!workspace) {
          results[i] = workspace.status();
          break;
        }
        args[i].scratch = static_cast<int*>(workspace->data);
        results[i] = launch(*device, *kernel, args[i], kShape, stream.launch());
      }
      if (!stream.wait()) results[i] = Status(StatusCode::kDeviceError, "wait");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) {
    EXPECT_TRUE(results[i].ok()) << results[i].message();
    EXPECT_THAT(read<int>(*device, args[i].out, kCount), Each(2 * (static_cast<int>(i) + 1)));
  }
}

TEST_F(GpuStreamsTest, TheCallersContextStaysCurrent) {
  const cuda::Driver& driver = **cuda::driver();
  const auto kernel = load(*device, kDouble);
  ASSERT_NE(kernel, nullptr);
  const DoubleArgs args = make_args(*device);
  std::thread([&] {
    EXPECT_TRUE(launch(*device, *kernel, args, kShape).ok());
    EXPECT_TRUE(device->synchronize().ok());
    cuda::CuContext current = nullptr;
    EXPECT_EQ(driver.cuCtxGetCurrent(&current), cuda::CuResult::kSuccess);
    EXPECT_EQ(current, nullptr);
  }).join();
}

TEST_F(GpuStreamsTest, ADeviceThatIsNotCurrentRunsItsOwnKernels) {
  if (devices < 2) GTEST_SKIP() << "needs two GPUs";
  const auto second = open(1);
  ASSERT_NE(second, nullptr);
  const auto here = load(*device, kDouble), there = load(*second, kDouble);
  ASSERT_TRUE(here != nullptr && there != nullptr);
  const DoubleArgs on_first = make_args(*device), on_second = make_args(*second);
  fill(*device, on_first.in, 4);
  fill(*second, on_second.in, 6);
  const test::GpuStream first_stream(0), second_stream(1);
  const cuda::ContextScope current(**cuda::driver(), first_stream.context());
  ASSERT_TRUE(launch(*second, *there, on_second, kShape, second_stream.launch()).ok());
  ASSERT_TRUE(launch(*second, *there, on_second, kShape).ok());  // its default stream, not the current device's
  ASSERT_TRUE(launch(*device, *here, on_first, kShape, first_stream.launch()).ok());
  ASSERT_TRUE(first_stream.wait() && second_stream.wait() && second->synchronize().ok());
  EXPECT_THAT(read<int>(*device, on_first.out, kCount), Each(8));
  EXPECT_THAT(read<int>(*second, on_second.out, kCount), Each(12));
  EXPECT_FALSE(launch(*device, *there, on_first, kShape).ok());
}

TEST_F(GpuStreamsTest, ABurstRunsAllItsCallsEachTime) {
  const auto kernel = load(*device, R"(
struct Args { int* data; int count; };
extern "C" __global__ void tw_test(const __grid_constant__ Args a) { a.data[0] += a.count; }
)");
  ASSERT_NE(kernel, nullptr);
  struct Args {
    int* data;
    int count;
  } args{static_cast<int*>(zeros(*device, 64)), 1};
  const auto call = [&](int turn, const LaunchContext& context) {
    args.count = turn;
    return launch(*device, *kernel, args, {.threads = 1}, context);
  };
  Result<std::unique_ptr<Burst>> burst = device->make_burst(call, 10, 4);
  ASSERT_TRUE(burst.ok()) << burst.status().message();
  for (int i = 0; i < 3; ++i) {
    const Result<double> us = (*burst)->run();
    ASSERT_TRUE(us.ok()) << us.status().message();
    EXPECT_GT(*us, 0);
  }
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_THAT(read<int>(*device, args.data, 1), testing::ElementsAre(10 + 3 * (10 + 11 + 12 + 13)));
}

}  // namespace
}  // namespace tilewright
