// SPDX-License-Identifier: MIT
// Streams of a HIP device: workspaces, zeros, captures, timed graphs.
#include <atomic>
#include <thread>

#include "unit/device/hip/fake_hip_device.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

class HipStreamsTest : public test::FakeHipTest {
 protected:
  void SetUp() override {
    test::FakeHipTest::SetUp();
    device = open();
    for (void*& stream : streams) ASSERT_EQ(driver->create_stream(&stream, gpu::kStreamNonBlocking), 0);
    fake->calls.clear();
  }
  void TearDown() override {
    device.reset();
    EXPECT_EQ(fake->live_allocations, 0);
    EXPECT_FALSE(fake->spoiled_capture);
    for (void* const stream : streams) driver->destroy_stream(stream);
    EXPECT_EQ(fake->live_streams, 0);
    EXPECT_EQ(fake->live_graphs, 0);
  }
  void* workspace(int64_t bytes, void* stream) const {
    const Result<Workspace> got = device->workspace(bytes, stream);
    EXPECT_TRUE(got.ok()) << got.status().message();
    return got ? got->data : nullptr;
  }
  char* zeros(int64_t bytes, void* stream) const {
    const Result<void*> got = device->zeros(bytes, stream);
    EXPECT_TRUE(got.ok()) << got.status().message();
    return got ? static_cast<char*>(*got) : nullptr;
  }

  std::unique_ptr<Device> device;
  void* streams[2] = {};
};

TEST_F(HipStreamsTest, EachStreamHasAWorkspaceThatGrowsAndFreesNothing) {
  void* const first = workspace(1000, streams[0]);
  EXPECT_EQ(workspace(2 << 20, streams[0]), first);
  EXPECT_NE(workspace(1000, streams[1]), first);
  EXPECT_NE(workspace(1000, nullptr), first);
  void* const grown = workspace(3 << 20, streams[0]);
  EXPECT_NE(grown, first);
  EXPECT_EQ(workspace(4 << 20, streams[0]), grown);
  EXPECT_EQ(fake->live_allocations, 4);
}

TEST_F(HipStreamsTest, EachStreamHasZerosThatGrow) {
  char* const first = zeros(16384, streams[0]);
  EXPECT_EQ(zeros(2 << 20, streams[0]), first);
  EXPECT_NE(zeros(16384, streams[1]), first);
  char* const grown = zeros(3 << 20, streams[0]);
  EXPECT_NE(grown, first);
  std::vector<char> back(4 << 20, 'x');
  ASSERT_TRUE(device->copy_to_host(back.data(), grown, 4 << 20).ok());
  EXPECT_EQ(std::count(back.begin(), back.end(), 0), 4 << 20);
  fake->failures["hipMalloc"] = 2;
  EXPECT_EQ(device->zeros(16 << 20, streams[0]).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(zeros(100, streams[0]), grown);
}

TEST_F(HipStreamsTest, AKnownWorkspaceOfTheDefaultStreamAsksHipNothing) {
  void* const first = workspace(1000, nullptr);
  const auto before = fake->calls.size();
  EXPECT_EQ(workspace(1000, nullptr), first);
  EXPECT_EQ(workspace(1000, reinterpret_cast<void*>(0x1)), first);  // the same stream by its other name
  EXPECT_EQ(fake->calls.size(), before);
}

TEST_F(HipStreamsTest, AThreadsOwnStreamHasAWorkspaceForEachThread) {
  auto* const per_thread = reinterpret_cast<void*>(0x2);
  void* const mine = workspace(1000, per_thread);
  EXPECT_EQ(workspace(1000, per_thread), mine);
  std::thread([&] { EXPECT_NE(workspace(1000, per_thread), mine); }).join();
}

TEST_F(HipStreamsTest, AStreamThatIsNoneIsRefused) {
  EXPECT_THAT(device->workspace(100, this).status().message(),
              HasSubstr("hip:0: argument 'stream': hipErrorFake (400)"));
}

TEST_F(HipStreamsTest, WhatAStreamCapturesHasAWorkspaceAndZerosOfItsOwn) {
  void* const plain = workspace(1000, streams[0]);
  char* const plain_zeros = zeros(500, streams[0]);
  // The strictest mode: HIP forbids every thread to allocate, unless it says that it knows.
  ASSERT_EQ(driver->begin_capture(streams[0], gpu::CaptureMode::kGlobal), 0);
  void* const captured = workspace(1000, streams[0]);
  char* const captured_zeros = zeros(500, streams[0]);
  EXPECT_NE(captured, plain);
  EXPECT_NE(captured_zeros, plain_zeros);
  EXPECT_EQ(workspace(1000, streams[0]), captured);
  // Another stream's grows meanwhile, and memory and code come from everywhere.
  EXPECT_NE(workspace(8 << 20, streams[1]), nullptr);
  const Result<void*> memory = device->allocate(64);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_TRUE(device->load(code_object()).ok());
  gpu::Graph graph = nullptr;
  ASSERT_EQ(driver->end_capture(streams[0], &graph), 0);
  driver->destroy_graph(graph);
  device->deallocate(*memory, 64);
  EXPECT_EQ(workspace(1000, streams[0]), plain);
}

TEST_F(HipStreamsTest, AWorkspaceIsHeldByOneCallAtATime) {
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

TEST_F(HipStreamsTest, ATimedBurstIsOneGraphOfAllItsCalls) {
  const auto kernel = *device->load(code_object());
  std::vector<int> turns;
  const std::byte args[32] = {};
  const auto call = [&](int turn, const LaunchContext& context) {
    EXPECT_EQ(context.stream == nullptr, turns.empty()) << "captured on a stream of its own";
    turns.push_back(turn);
    return device->launch(*kernel, args, {.grid = {1, 1, 1}, .threads = 64}, context);
  };
  Result<std::unique_ptr<Burst>> burst = device->make_burst(call, 5, 4);
  ASSERT_TRUE(burst.ok()) << burst.status().message();
  EXPECT_THAT(turns, testing::ElementsAre(5, 5, 6, 7, 8));  // one before the capture
  EXPECT_EQ(fake->launches.size(), 1u);
  const Result<double> us = (*burst)->run();
  ASSERT_TRUE(us.ok()) << us.status().message();
  EXPECT_GT(*us, 0);
  EXPECT_EQ(turns.size(), 5u);
  EXPECT_EQ(fake->launches.size(), 5u);
  EXPECT_EQ(calls("hipGraphLaunch"), 1);
  fake->failures["hipEventSynchronize"] = 700;
  EXPECT_THAT((*burst)->run().status().message(), HasSubstr("hip:0: timed graph: hipErrorIllegalAddress (700)"));
}

TEST_F(HipStreamsTest, ACallThatFailsInsideABurstSaysSoItself) {
  const auto call = [n = 0](int, const LaunchContext&) mutable {
    return ++n == 3 ? Status(StatusCode::kUnsupported, "third call") : Status();
  };
  EXPECT_EQ(device->make_burst(call, 0, 4).status().message(), "third call");
}

}  // namespace
}  // namespace tilewright
