// SPDX-License-Identifier: MIT
// HIP without an AMD GPU: streams, captures, events and graphs.
#include <algorithm>

#include "support/hip/machine.hpp"

using namespace tilewright;
using namespace tilewright::test;
using gpu::CaptureMode;
using gpu::CaptureStatus;

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

// Takes back what a handle of the set names.
template <class Thing>
Code destroy(const char* function, std::set<void*> Machine::* known, void* handle) {
  return call(function, [&](Machine& m) -> Code {
    if ((m.*known).erase(handle) == 0) return kFakeInvalidHandle;
    delete static_cast<Thing*>(handle);
    return gpu::kSuccess;
  });
}

}  // namespace

EXPORTED Code hipStreamCreateWithFlags(void** stream, unsigned) {
  return call("hipStreamCreateWithFlags", [&](Machine& m) -> Code {
    static unsigned long long ids = 1000;
    auto* const made = new FakeStream();
    made->device = m.current();
    made->id = ++ids;
    m.streams.insert(*stream = made);
    ++m.told.live_streams;
    return gpu::kSuccess;
  });
}
EXPORTED Code hipStreamDestroy(void* stream) {
  const Code code = destroy<FakeStream>("hipStreamDestroy", &Machine::streams, stream);
  if (code == gpu::kSuccess) --Machine::get().told.live_streams;
  return code;
}
EXPORTED Code hipStreamSynchronize(void* stream) {
  return call("hipStreamSynchronize", [&](Machine& m) -> Code {
    const FakeStream* const on = m.stream(stream);
    if (on == nullptr) return kFakeInvalidHandle;
    return m.wait(on->device);
  });
}
EXPORTED Code hipStreamGetId(void* stream, unsigned long long* id) {
  return call("hipStreamGetId", [&](Machine& m) -> Code {
    FakeStream* const on = m.stream(stream);
    if (on == nullptr) return kFakeInvalidHandle;
    if (on->capturing != nullptr) on->spoiled = m.told.spoiled_capture = true;
    *id = on->id;
    return gpu::kSuccess;
  });
}
EXPORTED Code hipStreamIsCapturing(void* stream, CaptureStatus* status) {
  return call("hipStreamIsCapturing", [&](Machine& m) -> Code {
    const FakeStream* const on = m.stream(stream);
    if (on == nullptr) return kFakeInvalidHandle;
    *status = on->capturing == nullptr ? CaptureStatus::kNone
              : on->spoiled            ? CaptureStatus::kInvalidated
                                       : CaptureStatus::kActive;
    return gpu::kSuccess;
  });
}
EXPORTED Code hipThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  std::swap(*mode, Machine::get().mode());
  return gpu::kSuccess;
}
EXPORTED Code hipStreamBeginCapture(void* stream, CaptureMode mode) {
  return call("hipStreamBeginCapture", [&](Machine& m) -> Code {
    if (!m.streams.contains(stream)) return kFakeCaptureUnsupported;  // the default stream
    auto& on = *static_cast<FakeStream*>(stream);
    if (on.capturing != nullptr) return kFakeInvalidValue;
    on.capturing = new FakeGraph();
    on.mode = mode;
    on.captured_by = std::this_thread::get_id();
    on.spoiled = false;
    return gpu::kSuccess;
  });
}
EXPORTED Code hipStreamEndCapture(void* stream, void** graph) {
  return call("hipStreamEndCapture", [&](Machine& m) -> Code {
    FakeStream* const on = m.stream(stream);
    if (on == nullptr || on->capturing == nullptr) return kFakeInvalidValue;
    FakeGraph* const captured = std::exchange(on->capturing, nullptr);
    if (on->spoiled) {
      delete captured;
      return kFakeCaptureInvalidated;
    }
    m.graphs.insert(*graph = captured);
    ++m.told.live_graphs;
    return gpu::kSuccess;
  });
}

EXPORTED Code hipEventCreateWithFlags(void** event, unsigned) {
  return call("hipEventCreateWithFlags", [&](Machine& m) -> Code {
    m.events.insert(*event = new FakeEvent());
    return gpu::kSuccess;
  });
}
EXPORTED Code hipEventDestroy(void* event) { return destroy<FakeEvent>("hipEventDestroy", &Machine::events, event); }
EXPORTED Code hipEventRecord(void* event, void* stream) {
  return call("hipEventRecord", [&](Machine& m) -> Code {
    FakeStream* const on = m.stream(stream);
    if (on == nullptr || !m.events.contains(event)) return kFakeInvalidHandle;
    m.enqueue(*on, [event] { static_cast<FakeEvent*>(event)->time = std::chrono::steady_clock::now(); });
    return gpu::kSuccess;
  });
}
EXPORTED Code hipEventSynchronize(void* event) {
  return call("hipEventSynchronize", [&](Machine& m) -> Code {
    return m.events.contains(event) ? m.wait(m.current()) : static_cast<Code>(kFakeInvalidHandle);
  });
}
EXPORTED Code hipEventElapsedTime(float* milliseconds, void* start, void* end) {
  const auto took = static_cast<FakeEvent*>(end)->time - static_cast<FakeEvent*>(start)->time;
  *milliseconds = std::max(1e-3f, std::chrono::duration<float, std::milli>(took).count());
  return gpu::kSuccess;
}

EXPORTED Code hipGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  return call("hipGraphInstantiateWithFlags", [&](Machine& m) -> Code {
    if (!m.graphs.contains(graph)) return kFakeInvalidValue;
    m.graphs.insert(*exec = new FakeGraph(*static_cast<FakeGraph*>(graph)));
    ++m.told.live_graphs;
    return gpu::kSuccess;
  });
}
EXPORTED Code hipGraphLaunch(void* exec, void* stream) {
  return call("hipGraphLaunch", [&](Machine& m) -> Code {
    FakeStream* const on = m.stream(stream);
    if (on == nullptr || !m.graphs.contains(exec)) return kFakeInvalidHandle;
    for (const Operation& operation : static_cast<FakeGraph*>(exec)->operations) m.enqueue(*on, operation);
    return gpu::kSuccess;
  });
}
EXPORTED Code hipGraphDestroy(void* graph) {
  const Code code = destroy<FakeGraph>("hipGraphDestroy", &Machine::graphs, graph);
  if (code == gpu::kSuccess) --Machine::get().told.live_graphs;
  return code;
}
EXPORTED Code hipGraphExecDestroy(void* exec) { return hipGraphDestroy(exec); }
