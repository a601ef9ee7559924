// SPDX-License-Identifier: MIT
// What tests see and set of the fake HIP library: a shared object with HIP's functions and emulated GPUs behind them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tilewright::test {

struct FakeHip {
  // What the machine is. From the environment: FAKE_HIP_TARGET (the first part of the target), FAKE_HIP_DEVICES,
  // FAKE_HIP_FAIL ("hipMalloc=2,hipModuleLoadData=209").
  int version = 60342131, devices = 2;
  std::string processor = "gfx942:sramecc+:xnack-", name = "AMD Instinct MI300X";
  int units = 304, lds_bytes = 65536;
  int static_lds = 0, max_threads = 1024;  // of every kernel
  uint64_t memory_bytes = uint64_t{192} << 30;
  // The next call of a function fails with the code.
  std::map<std::string, int> failures;

  // What was done.
  struct Launch {
    int device;
    void* stream;
    uint32_t grid[3], threads, lds_bytes;
    std::string entry, args;
  };
  std::vector<Launch> launches;    // those of a replayed graph as well
  std::vector<std::string> calls;  // names of functions that allocate, load, launch, synchronise or create
  int live_allocations = 0, live_modules = 0, live_streams = 0, live_graphs = 0;
  bool spoiled_capture = false;  // somebody did what is forbidden while a stream is captured

  // As the environment says.
  static FakeHip from_environment();
};

}  // namespace tilewright::test
