// SPDX-License-Identifier: MIT
// The machine behind the fake HIP library: emulated GPUs, their memory, streams that do at once what they are given.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "device/emu/emulator.hpp"
#include "device/hip/driver/driver_types.hpp"
#include "support/hip/fake_hip.hpp"

namespace tilewright::test {

using gpu::Code;

// hipError_t, as far as the fake tells errors apart.
enum FakeError : Code {
  kFakeInvalidValue = 1,
  kFakeOutOfMemory = 2,
  kFakeNoDevice = 100,
  kFakeInvalidDevice = 101,
  kFakeInvalidImage = 200,
  kFakeNoBinary = 209,
  kFakeInvalidHandle = 400,
  kFakeNotFound = 500,
  kFakeIllegalAddress = 700,
  kFakeCaptureUnsupported = 900,
  kFakeCaptureInvalidated = 901,
};

// Work that a stream does, or a graph keeps.
using Operation = std::function<void()>;

struct FakeGraph {
  std::vector<Operation> operations;
};

struct FakeStream {
  int device = 0;
  unsigned long long id = 0;
  FakeGraph* capturing = nullptr;
  gpu::CaptureMode mode = gpu::CaptureMode::kGlobal;
  std::thread::id captured_by;
  bool spoiled = false;
};

struct FakeEvent {
  std::chrono::steady_clock::time_point time;
};

struct FakeModule {
  int device = 0;
  emu::EmulatedObject object;  // empty: a code object, whose kernels do nothing
};

struct FakeFunction {
  FakeModule* module = nullptr;
  std::string name;
  emu::KernelEntry entry = nullptr;
};

class Machine {
 public:
  static Machine& get();

  FakeHip told = FakeHip::from_environment();
  std::recursive_mutex mutex;
  std::set<void*> streams, events, graphs, modules;
  std::vector<std::unique_ptr<FakeFunction>> functions;  // live as long as the process: graphs name them

  // Whether the test wants this call to fail; what a thread does next is asked by hipGetLastError().
  Code begin(const char* function);
  Code done(Code code);
  Code take_last_error();
  const std::string& words_of(Code code) const;

  int& current();
  const ArchSpec* arch() const;

  Code allocate(size_t bytes, void** data);
  Code release(void* data);
  // Bytes that lie in one allocation; -1: the host's.
  int owner(const void* data, size_t bytes) const;
  void written(void* to, size_t bytes);
  void copied(void* to, const void* from, size_t bytes);

  Code load(const void* image, FakeModule** module);
  void run(const FakeFunction& function, const FakeHip::Launch& launch);

  // The stream that a handle names; null when there is none.
  FakeStream* stream(void* handle);
  // Now, or with the graph that the stream captures.
  void enqueue(FakeStream& stream, Operation operation);
  // Whether the calling thread may allocate, load and wait; what it does otherwise spoils the captures.
  bool forbidden();
  gpu::CaptureMode& mode();
  // The fault of an earlier kernel on the device, told once.
  Code wait(int device);

 private:
  struct Allocation {
    int device;
    size_t bytes;
  };
  emu::GlobalMemory& memory(int device) { return memories_[device]; }

  std::unordered_map<int, emu::GlobalMemory> memories_;
  std::map<uintptr_t, Allocation> allocations_;
  std::unordered_map<int, FakeStream> default_streams_;
  std::unordered_map<int, std::string> faults_;
};

// One call of the library: no other runs beside it, and its error is kept.
template <class Body>
Code call(const char* function, Body body) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  const Code wanted = machine.begin(function);
  return machine.done(wanted != gpu::kSuccess ? wanted : body(machine));
}

}  // namespace tilewright::test
