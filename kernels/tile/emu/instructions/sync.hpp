// SPDX-License-Identifier: MIT
// Barriers, waits, fences, and hints to the scheduler. Sources: AMD CDNA3 ISA reference, "Manually Inserted Wait States"
// and S_WAITCNT; LLVM, "User Guide for AMDGPU Backend", waitcnt (where each counter stands); RDNA4 ISA reference,
// S_WAIT_LOADCNT, S_WAIT_DSCNT, S_WAIT_STORECNT, S_WAIT_KMCNT and S_WAIT_LOADCNT_DSCNT (dscnt in bits 5:0, loadcnt in 13:8).
#pragma once

#include "tile/emu/runtime.hpp"

namespace tilewright::emu {

inline constexpr uint32_t kNoWait = 63;

struct Wait {
  uint32_t outstanding;
};
TILEWRIGHT_EMU_PLAIN static inline void wait_for_copies(WaveView* view) {
  LaneState* lane = view->state[first_active(view)];
  lane->engine->wait_copies(lane, operands_of<Wait>(view, first_active(view)).outstanding);
}
// A point that the lanes of a wave pass together.
TILEWRIGHT_EMU_PLAIN static inline void meet_only(const void* site) {
  LaneState* lane = this_lane();
  lane->engine->lockstep(lane, nullptr, nullptr, site);
}

}  // namespace tilewright::emu

TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_s_barrier() {
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  lane->engine->barrier(lane, TILEWRIGHT_EMU_SITE);
}
#if defined(__GFX12__)
// Split barriers of the workgroup: nobody passes the wait before all have signalled.
TILEWRIGHT_EMU_PLAIN static inline void __builtin_amdgcn_s_barrier_signal(int) {}
TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_s_barrier_wait(short) {
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  lane->engine->barrier(lane, TILEWRIGHT_EMU_SITE);
}
// gfx12 waits for each counter by itself. clang has no builtins for it: a primitive that says so in assembly has these as
// its twins. Loads that land later are counted by loadcnt; LDS, stores and scalar loads have landed already.
namespace tilewright::emu {
TILEWRIGHT_EMU_INSTRUCTION void s_wait_loadcnt(uint32_t outstanding) {
  Wait wait{outstanding & 63};
  meet(wait, wait_for_copies, TILEWRIGHT_EMU_SITE);
}
TILEWRIGHT_EMU_INSTRUCTION void s_wait_loadcnt_dscnt(uint32_t immediate) {
  Wait wait{immediate >> 8 & 63};
  meet(wait, wait_for_copies, TILEWRIGHT_EMU_SITE);
}
TILEWRIGHT_EMU_INSTRUCTION void s_wait_dscnt(uint32_t) { meet_only(TILEWRIGHT_EMU_SITE); }
TILEWRIGHT_EMU_INSTRUCTION void s_wait_storecnt(uint32_t) { meet_only(TILEWRIGHT_EMU_SITE); }
TILEWRIGHT_EMU_INSTRUCTION void s_wait_kmcnt(uint32_t) { meet_only(TILEWRIGHT_EMU_SITE); }
}  // namespace tilewright::emu
#else
// Counters of the immediate: gfx9 has vmcnt in bits 3:0 and 15:14, gfx11 in bits 15:10. Loads and stores that the source
// writes as such have landed already; those that land later are counted by vmcnt.
TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_s_waitcnt(int immediate) {
  const uint32_t bits = static_cast<uint32_t>(immediate);
#if defined(__GFX9__)
  tilewright::emu::Wait wait{(bits & 15) | (bits >> 14 & 3) << 4};
#else
  tilewright::emu::Wait wait{bits >> 10 & 63};
#endif
  tilewright::emu::meet(wait, tilewright::emu::wait_for_copies, TILEWRIGHT_EMU_SITE);
}
#endif

// Lanes of a wave run one after another here: what one writes to LDS and another of its wave reads needs one of these two
// between. On the hardware they cost nothing.
TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_wave_barrier() { tilewright::emu::meet_only(TILEWRIGHT_EMU_SITE); }
TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_fence(unsigned, const char*, ...) {
  tilewright::emu::meet_only(TILEWRIGHT_EMU_SITE);
}

// Whoever sleeps waits for somebody.
TILEWRIGHT_EMU_INSTRUCTION void __builtin_amdgcn_s_sleep(int) {
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  lane->engine->yield(lane);
}

// These change when instructions run, not what they do.
TILEWRIGHT_EMU_PLAIN static inline void __builtin_amdgcn_s_setprio(short) {}
TILEWRIGHT_EMU_PLAIN static inline void __builtin_amdgcn_s_nop(int) {}
TILEWRIGHT_EMU_PLAIN static inline void __builtin_amdgcn_sched_barrier(int) {}
TILEWRIGHT_EMU_PLAIN static inline void __builtin_amdgcn_sched_group_barrier(int, int, int) {}
TILEWRIGHT_EMU_PLAIN static inline void __builtin_amdgcn_iglp_opt(int) {}
