// SPDX-License-Identifier: MIT
// What a cubin says of its kernels: registers, local and shared memory, arguments. Read from the ELF file itself, so that
// budgets are checked without a GPU and without a toolkit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

// Instructions that kernels are checked for, by the nine bits of their opcode that do not depend on operands; the same from
// sm_80 to sm_90.
enum class Sass : uint16_t {
  kMmaFloat = 0x03C,         // HMMA
  kMmaInt = 0x037,           // IMMA
  kWgmmaFloat = 0x1F0,       // HGMMA
  kWgmmaInt = 0x1F1,         // IGMMA
  kWgmmaFp8 = 0x1F3,         // QGMMA
  kTensorLoad = 0x1B4,       // UTMALDG
  kTensorStore = 0x1B5,      // UTMASTG
  kAsyncCopy = 0x1AE,        // LDGSTS
  kLoad = 0x181,             // LDG
  kLoadConstant = 0x182,     // LDC
  kLoadUniform = 0x0B9,      // ULDC
  kLaneExchange = 0x189,     // SHFL
  kLocalLoad = 0x183,        // LDL
  kLocalStore = 0x187,       // STL
  kWaitForKernel = 0x02E,    // ACQBULK, griddepcontrol.wait
  kAllowNextKernel = 0x02D,  // PREEXIT, griddepcontrol.launch_dependents
};

struct CubinKernel {
  std::string name;
  int registers = 0;         // a thread
  int64_t local_bytes = 0;   // a thread: spills, and arrays that are no registers
  int64_t shared_bytes = 0;  // static, a block
  int64_t arg_bytes = 0;
  int max_threads = 0;  // of a block, as declared; 0 = not declared
  int64_t code_bytes = 0;
  std::array<int, 512> instructions{};  // how many of each opcode stand in the code
  // Arrivals at an mbarrier that may overtake a load from shared memory which the same warp asked for before (sm_90): nothing in
  // front of them waits for it. Counted along the code, which is blind to loops.
  int overtaking_arrivals = 0;
  // Loads from global memory that stand behind the first exchange between lanes: they wait for a reduction.
  int late_loads = 0;
  // And, copies to shared memory among them, in front of the first wait for kernels in front: they may read what those still write.
  int early_loads = 0;
  // Loads of addresses of tables that lie in global memory: who reads those waits for memory.
  int table_loads = 0;
  int count(Sass opcode) const { return instructions[static_cast<size_t>(opcode)]; }
};

struct CubinInfo {
  int capability = 0;  // 90 for sm_90a
  std::vector<CubinKernel> kernels;
};

// kCorrupt for anything but a whole cubin.
Result<CubinInfo> read_cubin(std::span<const std::byte> image);

}  // namespace tilewright
