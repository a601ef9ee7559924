// SPDX-License-Identifier: MIT
// Sources: AMD CDNA3 ISA reference, "Local Data Share" (32 banks of 4 bytes; several lanes at one dword are one access);
// CDNA4 ISA reference (160 KiB, 64 banks); Composable Kernel documentation, "Understanding AMD GPU LDS and Bank Conflicts"
// (which lanes of ds_read_b128 and ds_write_b128 share a pass on gfx9).
#include "device/emu/memory/bank_conflicts.hpp"

#include <algorithm>

namespace tilewright::emu {
namespace {

// The order in which ds_read_b128 takes lanes, eight a pass.
constexpr std::array<uint8_t, 32> kWideReadOrder = {0, 1, 2,  3,  20, 21, 22, 23, 4,  5,  6,  7,  16, 17, 18, 19,
                                                    8, 9, 10, 11, 28, 29, 30, 31, 12, 13, 14, 15, 24, 25, 26, 27};

}  // namespace

uint32_t lds_banks(std::string_view target) { return target == "gfx950" ? 64 : 32; }

void LdsInstructions::add(uint32_t lane, const void* site, uint32_t offset, size_t bytes, bool write) {
  const uint64_t bit = uint64_t{1} << lane;
  size_t i = next_[lane];
  const size_t end = std::min(used_, i + 64);
  while (i < end && (instructions_[i].site != site || (instructions_[i].lanes & bit) != 0 ||
                     instructions_[i].bytes != bytes || instructions_[i].write != write)) {
    ++i;
  }
  if (i == end) {
    i = used_;
    if (used_ == kMost) return;
    if (used_ == instructions_.size()) instructions_.emplace_back();
    Instruction& fresh = instructions_[used_++];
    fresh.site = site;
    fresh.bytes = static_cast<uint32_t>(bytes);
    fresh.write = write;
    fresh.lanes = 0;
  }
  instructions_[i].lanes |= bit;
  instructions_[i].offset[lane] = offset;
  next_[lane] = static_cast<uint32_t>(i + 1);
}

void LdsInstructions::flush(bool gfx9, uint32_t banks, LdsTraffic* traffic) {
  for (size_t n = 0; n < used_; ++n) {
    const Instruction& instruction = instructions_[n];
    ++traffic->instructions;
    const uint32_t dwords = std::max<uint32_t>(1, (instruction.bytes + 3) / 4);
    const uint32_t group = std::max<uint32_t>(1, banks / std::max<uint32_t>(1, std::min<uint32_t>(dwords, banks)));
    const bool ordered = gfx9 && banks == 32 && instruction.bytes == 16 && !instruction.write;
    for (uint32_t first = 0; first < 64; first += group) {
      // Distinct dwords of each bank.
      std::array<uint8_t, 64> count{};
      uint32_t seen[64][64];
      uint32_t most = 0;
      for (uint32_t k = first; k < std::min(first + group, 64u); ++k) {
        const uint32_t lane = ordered ? (k & 32) + kWideReadOrder[k & 31] : k;
        if ((instruction.lanes >> lane & 1) == 0) continue;
        const uint32_t begin = instruction.offset[lane] / 4;
        for (uint32_t dword = begin; dword < begin + dwords; ++dword) {
          const uint32_t bank = dword % banks;
          uint8_t& held = count[bank];
          if (std::find(seen[bank], seen[bank] + held, dword) != seen[bank] + held || held == 64) continue;
          seen[bank][held++] = dword;
          most = std::max<uint32_t>(most, held);
        }
      }
      if (most == 0) continue;
      ++traffic->passes;
      traffic->conflicts += most - 1;
    }
  }
  used_ = 0;
  next_.fill(0);
}

}  // namespace tilewright::emu
