// SPDX-License-Identifier: MIT
// LDS accesses of a wave, put together to instructions again, and the passes that the banks need for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tilewright::emu {

struct LdsTraffic {
  uint64_t instructions = 0;  // of a wave
  uint64_t passes = 0;        // without a conflict
  uint64_t conflicts = 0;     // passes more
};

// Lanes run one after another between two meetings of their wave: the n-th access of each from one place is one
// instruction.
class LdsInstructions {
 public:
  void add(uint32_t lane, const void* site, uint32_t offset, size_t bytes, bool write);
  // Counts and forgets what was added. `target` says how many banks there are and which lanes share a pass.
  void flush(bool gfx9, uint32_t banks, LdsTraffic* traffic);
  bool empty() const { return used_ == 0; }

 private:
  struct Instruction {
    const void* site;
    uint32_t bytes;
    bool write;
    uint64_t lanes;
    std::array<uint32_t, 64> offset;
  };
  static constexpr size_t kMost = 2048;  // what comes after them until the next meeting is counted as conflict-free
  std::vector<Instruction> instructions_;
  size_t used_ = 0;
  std::array<uint32_t, 64> next_{};
};

// 64 on gfx950, 32 elsewhere.
uint32_t lds_banks(std::string_view target);

}  // namespace tilewright::emu
