// SPDX-License-Identifier: MIT
// Data-parallel primitives: a move whose source is another lane. Sources: AMD CDNA3 ISA reference, "DPP" (controls of
// gfx9); RDNA3 ISA reference, "DPP16" and "DPP8" (row_share and row_xmask; no shifts or broadcasts over rows).
#pragma once

#include "tile/emu/instructions/lanes.hpp"

namespace tilewright::emu {

struct DppMove {
  LaneMove move;  // first: value_of() reads it
  int control = 0, row_mask = 15, bank_mask = 15;
};

inline constexpr int kDppInvalid = -1, kDppUnknown = -2;

// The lane that `lane` reads; invalid: outside of its row or of the wave.
TILEWRIGHT_EMU_PLAIN static inline int dpp_source(int lane, int control) {
  const int row = lane & ~15, i = lane & 15, n = control & 15;
  if (control < 0x100) return (lane & ~3) | (control >> 2 * (lane & 3) & 3);           // quad_perm
  if (control > 0x100 && control < 0x110) return i + n < 16 ? lane + n : kDppInvalid;  // row_shl
  if (control > 0x110 && control < 0x120) return i >= n ? lane - n : kDppInvalid;      // row_shr
  if (control > 0x120 && control < 0x130) return row | ((i - n) & 15);                 // row_ror
  if (control == 0x140) return row | (15 - i);                                         // row_mirror
  if (control == 0x141) return row | (i & 8) | (7 - (i & 7));                          // row_half_mirror
#if defined(__GFX9__)
  const int last = static_cast<int>(kWaveSize) - 1;
  if (control == 0x130) return lane < last ? lane + 1 : kDppInvalid;  // wave_shl:1
  if (control == 0x134) return lane < last ? lane + 1 : 0;            // wave_rol:1
  if (control == 0x138) return lane > 0 ? lane - 1 : kDppInvalid;     // wave_shr:1
  if (control == 0x13c) return lane > 0 ? lane - 1 : last;            // wave_ror:1
  if (control == 0x142) return row > 0 ? row - 1 : kDppInvalid;       // row_bcast:15
  if (control == 0x143) return lane >= 32 ? 31 : kDppInvalid;         // row_bcast:31
  if (control >= 0x150 && control < 0x160) return row | n;            // row_newbcast
#else
  if (control >= 0x150 && control < 0x160) return row | n;        // row_share
  if (control >= 0x160 && control < 0x170) return row | (i ^ n);  // row_xmask
#endif
  return kDppUnknown;
}

TILEWRIGHT_EMU_PLAIN static inline void dpp_move(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    DppMove& dpp = operands_of<DppMove>(view, lane);
    const bool enabled = (dpp.row_mask >> (lane >> 4) & 1) != 0 && (dpp.bank_mask >> (lane >> 2 & 3) & 1) != 0;
    const int source = dpp_source(static_cast<int>(lane), dpp.control);
    if (source == kDppUnknown) {
      LaneState* state = view->state[lane];
      state->engine->fault(state, "this target has no such DPP control", nullptr);
    }
    const int otherwise = dpp.move.bound_control ? 0 : dpp.move.old;
    dpp.move.result = !enabled ? dpp.move.old : source < 0 ? otherwise : value_of(view, source, otherwise);
  }
}

#if defined(__GFX11__) || defined(__GFX12__)
TILEWRIGHT_EMU_PLAIN static inline void dpp8_move(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    LaneMove& move = operands_of<LaneMove>(view, lane);
    const uint32_t source = (lane & ~7u) | (static_cast<uint32_t>(move.selector) >> 3 * (lane & 7) & 7);
    move.result = value_of(view, static_cast<int>(source), 0);
  }
}
#endif

}  // namespace tilewright::emu

TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_update_dpp(int old, int value, int control, int row_mask, int bank_mask,
                                                           bool bound_control) {
  tilewright::emu::DppMove dpp{{value, 0, 0, 0, old, bound_control}, control, row_mask, bank_mask};
  tilewright::emu::meet(dpp, tilewright::emu::dpp_move, TILEWRIGHT_EMU_SITE);
  return dpp.move.result;
}
// What nothing is moved to holds anything: all bits set.
TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_mov_dpp(int value, int control, int row_mask, int bank_mask,
                                                        bool bound_control) {
  tilewright::emu::DppMove dpp{{value, 0, 0, 0, -1, bound_control}, control, row_mask, bank_mask};
  tilewright::emu::meet(dpp, tilewright::emu::dpp_move, TILEWRIGHT_EMU_SITE);
  return dpp.move.result;
}
#if defined(__GFX11__) || defined(__GFX12__)
TILEWRIGHT_EMU_INSTRUCTION unsigned __builtin_amdgcn_mov_dpp8(unsigned value, unsigned selectors) {
  tilewright::emu::LaneMove move{static_cast<int>(value), static_cast<int>(selectors)};
  tilewright::emu::meet(move, tilewright::emu::dpp8_move, TILEWRIGHT_EMU_SITE);
  return static_cast<unsigned>(move.result);
}
#endif
