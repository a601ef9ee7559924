// SPDX-License-Identifier: MIT
// What tests see and set of the fake CUDA driver (fake_cuda.cpp), a shared object that has its functions but no GPU.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/cuda/driver/driver_types.hpp"

namespace tilewright::test {

struct FakeCuda {
  // What the machine is.
  int version = 13000, devices = 2, major = 9, minor = 0;
  std::string name = "NVIDIA H200";
  size_t arg_bytes = 16;
  size_t free_bytes = size_t{100} << 30;
  int static_shared = 0, max_threads = 384;
  size_t map_address_offset = 0;  // where a tensor map keeps its address
  // The next call of a function fails with the code.
  std::map<std::string, int> failures;

  // What was done.
  struct Launch {
    cuda::LaunchConfig config;
    std::vector<cuda::LaunchAttribute> attributes;
    std::string args;
    cuda::CuContext context;
  };
  std::vector<Launch> launches;
  struct Map {
    cuda::MapDataType type;
    uint32_t rank;
    uint64_t dims[5], strides[4];
    uint32_t box[5];
    cuda::MapSwizzle swizzle;
    void* address;
  };
  std::vector<Map> maps;
  std::vector<std::string> calls;          // names of functions that allocate, load, synchronise or create
  std::map<int, int> function_attributes;  // as set last
  std::map<cuda::CuStream, unsigned long long> stream_ids;
  cuda::CuStream capturing = nullptr;  // the stream that is being captured
  int live_allocations = 0, live_libraries = 0, retained = 0;
  bool relaxed = false;  // this thread may allocate while a stream is captured
  bool allocated_unrelaxed = false;
  bool used_after_release = false;  // the primary context, by what frees or destroys
};

}  // namespace tilewright::test
