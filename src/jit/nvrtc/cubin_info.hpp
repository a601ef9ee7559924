// SPDX-License-Identifier: MIT
// What a cubin says of its kernels: registers, local and shared memory, arguments. Read from the ELF file itself, so that
// budgets are checked without a GPU and without a toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

struct CubinKernel {
  std::string name;
  int registers = 0;         // a thread
  int64_t local_bytes = 0;   // a thread: spills, and arrays that are no registers
  int64_t shared_bytes = 0;  // static, a block
  int64_t arg_bytes = 0;
  int max_threads = 0;  // of a block, as declared; 0 = not declared
  int64_t code_bytes = 0;
};

struct CubinInfo {
  int capability = 0;  // 90 for sm_90a
  std::vector<CubinKernel> kernels;
};

// kCorrupt for anything but a whole cubin.
Result<CubinInfo> read_cubin(std::span<const std::byte> image);

}  // namespace tilewright
