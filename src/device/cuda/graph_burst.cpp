// SPDX-License-Identifier: MIT
#include "device/cuda/graph_burst.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/cuda/driver/context_scope.hpp"

namespace tilewright::cuda {
namespace {

class GraphBurst final : public Burst {
 public:
  GraphBurst(const Place& place, int count)
      : place_(place), d_(*place.driver), what_(fmt::format("cuda:{}: timed graph", place.index)), count_(count) {}

  ~GraphBurst() override {
    const ContextScope scope(d_, place_.context);
    if (exec_ != nullptr) d_.cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) d_.cuGraphDestroy(graph_);
    for (const CuEvent event : events_) {
      if (event != nullptr) d_.cuEventDestroy_v2(event);
    }
    if (stream_ != nullptr) d_.cuStreamDestroy_v2(stream_);
  }

  Status capture(const TurnedCall& call, int first_turn) {
    const ContextScope scope(d_, place_.context);
    if (Status s = check(d_, scope.result(), what_); !s) return s;
    if (Status s = check(d_, d_.cuStreamCreate(&stream_, kStreamNonBlocking), what_); !s) return s;
    for (CuEvent& event : events_) {
      if (Status s = check(d_, d_.cuEventCreate(&event, kEventDefault), what_); !s) return s;
    }
    // One call outside the graph: it may load and allocate, and says what is wrong in its own words.
    const LaunchContext context{.stream = stream_};
    if (Status s = call(first_turn, context); !s) return s;
    if (Status s = check(d_, d_.cuStreamSynchronize(stream_), what_); !s) return s;

    if (Status s = check(d_, d_.cuStreamBeginCapture_v2(stream_, CaptureMode::kThreadLocal), what_); !s) return s;
    Status called;
    for (int i = 0; i < count_ && called; ++i) called = call(first_turn + i, context);
    const CuResult ended = d_.cuStreamEndCapture(stream_, &graph_);
    if (!called) return called;
    if (Status s = check(d_, ended, what_); !s) return s;
    return check(d_, d_.cuGraphInstantiateWithFlags(&exec_, graph_, 0), what_);
  }

  Result<double> run() override {
    const ContextScope scope(d_, place_.context);
    float milliseconds = 0;
    CuResult result = scope.result();
    const auto next = [&result](CuResult one) { result = result == CuResult::kSuccess ? one : result; };
    next(d_.cuEventRecord(events_[0], stream_));
    next(d_.cuGraphLaunch(exec_, stream_));
    next(d_.cuEventRecord(events_[1], stream_));
    next(d_.cuEventSynchronize(events_[1]));
    if (result == CuResult::kSuccess) next(d_.cuEventElapsedTime(&milliseconds, events_[0], events_[1]));
    if (Status s = check(d_, result, what_); !s) return s;
    return static_cast<double>(milliseconds) * 1e3 / count_;
  }

 private:
  const Place place_;
  const Driver& d_;
  const std::string what_;
  const int count_;
  CuStream stream_ = nullptr;
  CuEvent events_[2] = {};
  CuGraph graph_ = nullptr;
  CuGraphExec exec_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Burst>> make_graph_burst(const Place& place, const TurnedCall& call, int first_turn, int count) {
  auto burst = std::make_unique<GraphBurst>(place, std::max(1, count));
  if (Status s = burst->capture(call, first_turn); !s) return s;
  return std::unique_ptr<Burst>(std::move(burst));
}

}  // namespace tilewright::cuda
