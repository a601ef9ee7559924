// SPDX-License-Identifier: MIT
#include "device/gpu/graph_burst.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::gpu {
namespace {

// The default stream: what else a process enqueues, mostly on it too, then slows no graph (docs/devices/cuda.md).
constexpr Stream kTimed = nullptr;

class GraphBurst final : public Burst {
 public:
  GraphBurst(const Runtime& runtime, BurstStreams& streams, int count)
      : runtime_(runtime),
        streams_(streams),
        f_(runtime.functions()),
        what_(fmt::format("{}: timed graph", runtime.name())),
        count_(count) {}

  ~GraphBurst() override {
    const DeviceScope scope(runtime_);
    if (exec_ != nullptr) f_.destroy_graph_exec(exec_);
    if (graph_ != nullptr) f_.destroy_graph(graph_);
    for (const Event event : events_) {
      if (event != nullptr) f_.destroy_event(event);
    }
    if (capturing_ != nullptr) streams_.give_back(capturing_);
  }

  Status capture(const TurnedCall& call, int first_turn) {
    const DeviceScope scope(runtime_);
    if (Status s = runtime_.check(scope.code(), what_); !s) return s;
    if (Status s = runtime_.check(streams_.take(capturing_), what_); !s) return s;
    for (Event& event : events_) {
      if (Status s = runtime_.check(f_.create_event(&event, kEventDefault), what_); !s) return s;
    }
    // One call outside the graph: it may load and allocate, and says what is wrong in its own words.
    if (Status s = call(first_turn, LaunchContext{.stream = kTimed}); !s) return s;
    if (Status s = runtime_.check(f_.synchronize_stream(kTimed), what_); !s) return s;

    const LaunchContext context{.stream = capturing_};
    if (Status s = runtime_.check(f_.begin_capture(capturing_, CaptureMode::kThreadLocal), what_); !s) return s;
    Status called;
    for (int i = 0; i < count_ && called; ++i) called = call(first_turn + i, context);
    const Code ended = f_.end_capture(capturing_, &graph_);
    if (!called) return called;
    if (Status s = runtime_.check(ended, what_); !s) return s;
    return runtime_.check(f_.instantiate(&exec_, graph_, 0), what_);
  }

  Result<double> run() override {
    const DeviceScope scope(runtime_);
    float milliseconds = 0;
    Code result = scope.code();
    const auto next = [&result](Code one) { result = result == kSuccess ? one : result; };
    next(f_.record_event(events_[0], kTimed));
    next(f_.launch_graph(exec_, kTimed));
    next(f_.record_event(events_[1], kTimed));
    next(f_.synchronize_event(events_[1]));
    if (result == kSuccess) next(f_.elapsed(&milliseconds, events_[0], events_[1]));
    if (Status s = runtime_.check(result, what_); !s) return s;
    return static_cast<double>(milliseconds) * 1e3 / count_;
  }

 private:
  const Runtime& runtime_;
  BurstStreams& streams_;
  const Functions& f_;
  const std::string what_;
  const int count_;
  Stream capturing_ = nullptr;
  Event events_[2] = {};
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;
};

}  // namespace

BurstStreams::~BurstStreams() {
  if (free_.empty()) return;
  const DeviceScope scope(runtime_);
  for (const Stream stream : free_) runtime_.functions().destroy_stream(stream);
}

Code BurstStreams::take(Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return runtime_.functions().create_stream(&stream, kStreamNonBlocking);
  stream = free_.back();
  free_.pop_back();
  return kSuccess;
}

void BurstStreams::give_back(Stream stream) {
  const std::lock_guard lock(mutex_);
  free_.push_back(stream);
}

Result<std::unique_ptr<Burst>> make_graph_burst(const Runtime& runtime, BurstStreams& streams, const TurnedCall& call,
                                                int first_turn, int count) {
  auto burst = std::make_unique<GraphBurst>(runtime, streams, std::max(1, count));
  if (Status s = burst->capture(call, first_turn); !s) return s;
  return std::unique_ptr<Burst>(std::move(burst));
}

}  // namespace tilewright::gpu
