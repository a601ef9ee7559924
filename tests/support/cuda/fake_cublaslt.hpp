// SPDX-License-Identifier: MIT
// What tests see and set of the fake cuBLASLt (fake_cublaslt.cpp), a shared object that multiplies on the host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/cuda/driver/driver_types.hpp"
#include "device/cuda/vendor/cublaslt_types.hpp"

namespace tilewright::test {

struct FakeCublasLt {
  // One algorithm as the heuristics give it.
  struct Algo {
    int32_t id, tile, stages, split_k, reduction, swizzle, custom, inner, cluster;
    size_t workspace;
    uint32_t alignment;  // of every address, bytes
    bool operator==(const Algo&) const = default;
  };

  // What the library is.
  size_t version = 130102;
  std::vector<Algo> algos = {{66, 20, 36, 1, 0, 0, 1, 0, 3, 0, 16},
                             {66, 23, 36, 4, 2, 1, 0, 0, 3, size_t{8} << 20, 16},
                             {71, 15, 16, 2, 4, 0, 2, 4, 2, size_t{1} << 20, 4},
                             {24, 18, 21, 1, 0, 0, 0, 0, 0, 0, 1}};
  // The next call of a function fails with the status.
  std::map<std::string, int> failures;

  // What was done.
  std::vector<std::string> calls;
  int live_handles = 0;
  struct Asked {
    uint64_t workspace;
    uint32_t reductions, alignment[4];
    int32_t units;
  };
  std::vector<Asked> asked;  // of the heuristics
  struct Multiplied {
    Algo algo;
    size_t workspace;
    const void* bias;
    void* stream;
  };
  std::vector<Multiplied> multiplied;
};

}  // namespace tilewright::test
