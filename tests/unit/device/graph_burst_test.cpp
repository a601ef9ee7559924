// SPDX-License-Identifier: MIT
// Timed graphs over a library of functions that only count.
#include "device/gpu/graph_burst.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tilewright::gpu {
namespace {

struct Counts {
  int created = 0, destroyed = 0, captures = 0, execs = 0;
  std::vector<Stream> launched_on;
};
Counts counts;

template <class Handle>
Handle handle(int number) {
  static char places[64];
  return &places[number % 64];
}

Functions counting_functions() {
  Functions f{};
  f.create_stream = [](Stream* stream, unsigned) {
    *stream = handle<Stream>(++counts.created);
    return kSuccess;
  };
  f.destroy_stream = [](Stream) {
    ++counts.destroyed;
    return kSuccess;
  };
  f.synchronize_stream = [](Stream) { return kSuccess; };
  f.begin_capture = [](Stream, CaptureMode) {
    ++counts.captures;
    return kSuccess;
  };
  f.end_capture = [](Stream, Graph* graph) {
    *graph = handle<Graph>(1);
    return kSuccess;
  };
  f.create_event = [](Event* event, unsigned) {
    *event = handle<Event>(2);
    return kSuccess;
  };
  f.destroy_event = [](Event) { return kSuccess; };
  f.record_event = [](Event, Stream) { return kSuccess; };
  f.synchronize_event = [](Event) { return kSuccess; };
  f.elapsed = [](float* milliseconds, Event, Event) {
    *milliseconds = 6;
    return kSuccess;
  };
  f.instantiate = [](GraphExec* exec, Graph, unsigned long long) {
    *exec = handle<GraphExec>(3);
    ++counts.execs;
    return kSuccess;
  };
  f.launch_graph = [](GraphExec, Stream stream) {
    counts.launched_on.push_back(stream);
    return kSuccess;
  };
  f.destroy_graph_exec = [](GraphExec) {
    --counts.execs;
    return kSuccess;
  };
  f.destroy_graph = [](Graph) { return kSuccess; };
  return f;
}

class CountingRuntime final : public Runtime {
 public:
  explicit CountingRuntime(const Functions& functions) : Runtime(functions, {DeviceKind::kCuda, 0}) {}
  Status check(Code code, std::string_view what) const override {
    return code == kSuccess ? Status() : Status(StatusCode::kInternal, std::string(what));
  }
  Entered enter() const override { return {}; }
  void leave(int) const override {}
};

struct GraphBurstTest : testing::Test {
  GraphBurstTest() { counts = {}; }
  const Functions functions = counting_functions();
  const CountingRuntime runtime{functions};
};

Status nothing(int, const LaunchContext&) { return {}; }

TEST_F(GraphBurstTest, BurstsOneAfterAnotherShareAStream) {
  {
    BurstStreams streams(runtime);
    for (int i = 0; i < 20; ++i) {
      Result<std::unique_ptr<Burst>> burst = make_graph_burst(runtime, streams, nothing, 0, 3);
      ASSERT_TRUE(burst) << burst.status().to_string();
      EXPECT_EQ(*(*burst)->run(), 2000) << "microseconds a call of three in 6 ms";
    }
    EXPECT_EQ(counts.created, 1);
    EXPECT_EQ(counts.destroyed, 0);
  }
  EXPECT_EQ(counts.destroyed, 1);
  EXPECT_EQ(counts.captures, 20);
  EXPECT_EQ(counts.execs, 0);
}

// Calls on one stream and graphs on another one make kernels of graphs slower.
TEST_F(GraphBurstTest, TheCallBeforeAGraphAndTheGraphRunOnTheDefaultStream) {
  BurstStreams streams(runtime);
  std::vector<Stream> called_on;
  const TurnedCall call = [&](int, const LaunchContext& context) {
    called_on.push_back(context.stream);
    return Status();
  };
  const Result<std::unique_ptr<Burst>> burst = make_graph_burst(runtime, streams, call, 0, 1);
  ASSERT_TRUE(burst && (*burst)->run());
  ASSERT_EQ(called_on.size(), 2u);
  EXPECT_EQ(called_on[0], nullptr);
  EXPECT_NE(called_on[1], nullptr) << "the default stream captures nothing";
  EXPECT_EQ(counts.launched_on, std::vector<Stream>{nullptr});
}

TEST_F(GraphBurstTest, BurstsAtATimeHaveAStreamEach) {
  {
    BurstStreams streams(runtime);
    for (int i = 0; i < 2; ++i) {
      const Result<std::unique_ptr<Burst>> one = make_graph_burst(runtime, streams, nothing, 0, 1),
                                           other = make_graph_burst(runtime, streams, nothing, 0, 1);
      ASSERT_TRUE(one && other);
    }
    EXPECT_EQ(counts.created, 2);
  }
  EXPECT_EQ(counts.destroyed, 2);
}

TEST_F(GraphBurstTest, ACallThatFailsGivesTheStreamBack) {
  BurstStreams streams(runtime);
  const TurnedCall fails = [](int turn, const LaunchContext&) {
    return turn < 2 ? Status() : Status(StatusCode::kInvalidArgument, "turn 2");
  };
  for (int i = 0; i < 3; ++i) {
    const Result<std::unique_ptr<Burst>> burst = make_graph_burst(runtime, streams, fails, 0, 5);
    ASSERT_FALSE(burst);
    EXPECT_EQ(burst.status().message(), "turn 2");
  }
  EXPECT_EQ(counts.created, 1);
}

}  // namespace
}  // namespace tilewright::gpu
