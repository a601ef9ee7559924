// SPDX-License-Identifier: MIT
// Copies that land at a later s_waitcnt vmcnt: loads straight to LDS, and loads into registers whose wait the source writes
// itself. Until then the target holds all bits set. Sources: AMD CDNA3 ISA reference, "Memory Buffer Load to LDS" and
// GLOBAL_LOAD_LDS_DWORD (LDS address = M0 base + instruction offset + lane * size); CDNA4 ISA reference (12 and 16 bytes).
#pragma once

#include "tile/emu/instructions/buffer.hpp"

namespace tilewright::emu {

struct DirectCopy {
  const unsigned char* from;  // null = zeros
  unsigned char* to;
  uint32_t bytes, offset;
  bool to_lds;
  const void* site;
};

alignas(16) inline constexpr unsigned char kZeros[16] = {};

// One instruction of the wave. Of LDS the first active lane's address counts, as M0 does.
TILEWRIGHT_EMU_PLAIN static inline void start_copies(WaveView* view) {
  const DirectCopy& first = operands_of<DirectCopy>(view, first_active(view));
  LaneState* leader = view->state[first_active(view)];
  leader->engine->begin_copies(leader);
  for (uint32_t i = 0; i < kWaveSize; ++i) {
    if (!is_active(view, i)) continue;
    const DirectCopy& copy = operands_of<DirectCopy>(view, i);
    unsigned char* to = copy.to_lds ? first.to + first.offset + i * copy.bytes : copy.to;
    const unsigned char* from = copy.from == nullptr ? kZeros : copy.from;
    leader->engine->copy_later(view->state[i], to, from, copy.bytes, copy.site);
  }
}

// For primitives whose GPU side is assembly: `registers` of this lane get `bytes` (at most 16) at the wait.
TILEWRIGHT_EMU_INSTRUCTION void load_later(void* registers, const void* from, uint32_t bytes) {
  DirectCopy copy{static_cast<const unsigned char*>(from),
                  static_cast<unsigned char*>(registers),
                  bytes,
                  0,
                  false,
                  TILEWRIGHT_EMU_SITE};
  meet(copy, start_copies, TILEWRIGHT_EMU_SITE);
}

}  // namespace tilewright::emu

#if defined(__GFX9__)
namespace tilewright::emu {
TILEWRIGHT_EMU_PLAIN static inline void require_lds_size(uint32_t bytes, const void* site) {
#if defined(__gfx950__)
  const bool known = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 12 || bytes == 16;
#else
  const bool known = bytes == 1 || bytes == 2 || bytes == 4;
#endif
  LaneState* lane = this_lane();
  if (!known) lane->engine->fault(lane, "this target loads no such number of bytes straight to LDS", site);
}
}  // namespace tilewright::emu

TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_global_load_lds(const void* from, void* lds, unsigned bytes,
                                                                 int offset, unsigned) {
  tilewright::emu::require_lds_size(bytes, TILEWRIGHT_EMU_SITE);
  tilewright::emu::DirectCopy copy{static_cast<const unsigned char*>(from) + offset,
                                   static_cast<unsigned char*>(lds),
                                   bytes,
                                   static_cast<uint32_t>(offset),
                                   true,
                                   TILEWRIGHT_EMU_SITE};
  tilewright::emu::meet(copy, tilewright::emu::start_copies, TILEWRIGHT_EMU_SITE);
}
TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_raw_ptr_buffer_load_lds(__amdgpu_buffer_rsrc_t buffer, void* lds,
                                                                         unsigned bytes, int lane_offset,
                                                                         int scalar_offset, int offset, int) {
  tilewright::emu::require_lds_size(bytes, TILEWRIGHT_EMU_SITE);
  const uint64_t at = uint64_t{static_cast<uint32_t>(lane_offset)} + static_cast<uint32_t>(offset) +
                      static_cast<uint32_t>(scalar_offset);
  const unsigned char* from = tilewright::emu::in_range(buffer, at, bytes) ? buffer.base + at : nullptr;
  tilewright::emu::DirectCopy copy{
      from, static_cast<unsigned char*>(lds), bytes, static_cast<uint32_t>(offset), true, TILEWRIGHT_EMU_SITE};
  tilewright::emu::meet(copy, tilewright::emu::start_copies, TILEWRIGHT_EMU_SITE);
}
#endif
