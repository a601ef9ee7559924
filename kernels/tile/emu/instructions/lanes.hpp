// SPDX-License-Identifier: MIT
// Operations between the lanes of a wave. Sources: AMD CDNA3 ISA reference and RDNA3 ISA reference, instruction
// descriptions of V_READLANE_B32, V_READFIRSTLANE_B32, V_PERMLANE16_B32, V_PERMLANEX16_B32, DS_PERMUTE_B32,
// DS_BPERMUTE_B32, DS_SWIZZLE_B32; CDNA4 ISA reference, V_PERMLANE16_SWAP_B32 and V_PERMLANE32_SWAP_B32.
#pragma once

#include "tile/emu/runtime.hpp"

namespace tilewright::emu {

struct LaneMove {
  int value = 0, selector = 0, second = 0, result = 0;
  int old = 0;
  bool bound_control = false;
};

// result = value of lane `source`; where that one is switched off, what the instruction gives then.
TILEWRIGHT_EMU_PLAIN static inline int value_of(const WaveView* view, int source, int otherwise) {
  return is_active(view, static_cast<uint32_t>(source))
             ? operands_of<LaneMove>(view, static_cast<uint32_t>(source)).value
             : otherwise;
}

#define TILEWRIGHT_EMU_FOR_LANES(view, lane)        \
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) \
    if (is_active(view, lane))

TILEWRIGHT_EMU_PLAIN static inline void read_lane(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    LaneMove& move = operands_of<LaneMove>(view, lane);
    const uint32_t source = static_cast<uint32_t>(move.selector) & (kWaveSize - 1);
    if (!is_active(view, source)) {
      LaneState* state = view->state[lane];
      state->engine->fault(state, "v_readlane of a lane that is switched off", nullptr);
    }
    move.result = value_of(view, static_cast<int>(source), -1);
  }
}
TILEWRIGHT_EMU_PLAIN static inline void read_first_lane(WaveView* view) {
  const int value = operands_of<LaneMove>(view, first_active(view)).value;
  TILEWRIGHT_EMU_FOR_LANES(view, lane) operands_of<LaneMove>(view, lane).result = value;
}
// Pull; a source that is switched off gives 0.
TILEWRIGHT_EMU_PLAIN static inline void backward_permute(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    LaneMove& move = operands_of<LaneMove>(view, lane);
    move.result = value_of(view, move.selector >> 2 & static_cast<int>(kWaveSize - 1), 0);
  }
}
// Push; of several lanes that push to one the highest wins; lanes that nobody pushes to get 0.
TILEWRIGHT_EMU_PLAIN static inline void forward_permute(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    const LaneMove& move = operands_of<LaneMove>(view, lane);
    const uint32_t target = static_cast<uint32_t>(move.selector) >> 2 & (kWaveSize - 1);
    if (is_active(view, target)) operands_of<LaneMove>(view, target).result = move.value;
  }
}
TILEWRIGHT_EMU_PLAIN static inline int swizzle_source(int lane, int offset) {
  const int half = lane & ~31, i = lane & 31;
  if (offset >= 0xc000) {  // rotate
    const int mask = offset & 31, amount = offset >> 5 & 31, rotate = (offset >> 10 & 1) != 0 ? -amount : amount;
    return half | (i & mask) | ((i + rotate) & ~mask & 31);
  }
  if ((offset & 0x8000) != 0) return (lane & ~3) | (offset >> 2 * (lane & 3) & 3);
  return half | (((i & (offset & 31)) | (offset >> 5 & 31)) ^ (offset >> 10 & 31));
}
TILEWRIGHT_EMU_PLAIN static inline void swizzle(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    LaneMove& move = operands_of<LaneMove>(view, lane);
    if (move.selector >= 0xe000) {
      LaneState* state = view->state[lane];
      state->engine->fault(state, "ds_swizzle: the FFT mode is not emulated", nullptr);
    }
    move.result = value_of(view, swizzle_source(static_cast<int>(lane), move.selector), 0);
  }
}
TILEWRIGHT_EMU_PLAIN static inline void ballot(WaveView* view) {
  uint64_t mask = 0;
  TILEWRIGHT_EMU_FOR_LANES(view, lane) mask |= uint64_t{operands_of<LaneMove>(view, lane).value != 0} << lane;
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    operands_of<LaneMove>(view, lane).result = static_cast<int>(mask);
    operands_of<LaneMove>(view, lane).second = static_cast<int>(mask >> 32);
  }
}

}  // namespace tilewright::emu

TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_readlane(int value, int lane) {
  tilewright::emu::LaneMove move{value, lane};
  tilewright::emu::meet(move, tilewright::emu::read_lane, TILEWRIGHT_EMU_SITE);
  return move.result;
}
TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_readfirstlane(int value) {
  tilewright::emu::LaneMove move{value};
  tilewright::emu::meet(move, tilewright::emu::read_first_lane, TILEWRIGHT_EMU_SITE);
  return move.result;
}
TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_ds_bpermute(int address, int value) {
  tilewright::emu::LaneMove move{value, address};
  tilewright::emu::meet(move, tilewright::emu::backward_permute, TILEWRIGHT_EMU_SITE);
  return move.result;
}
TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_ds_permute(int address, int value) {
  tilewright::emu::LaneMove move{value, address};
  tilewright::emu::meet(move, tilewright::emu::forward_permute, TILEWRIGHT_EMU_SITE);
  return move.result;
}
TILEWRIGHT_EMU_INSTRUCTION int __builtin_amdgcn_ds_swizzle(int value, int offset) {
  tilewright::emu::LaneMove move{value, offset & 0xffff};
  tilewright::emu::meet(move, tilewright::emu::swizzle, TILEWRIGHT_EMU_SITE);
  return move.result;
}
TILEWRIGHT_EMU_INSTRUCTION uint64_t __builtin_amdgcn_ballot_w64(bool value) {
  tilewright::emu::LaneMove move{value};
  tilewright::emu::meet(move, tilewright::emu::ballot, TILEWRIGHT_EMU_SITE);
  return static_cast<uint32_t>(move.result) | uint64_t{static_cast<uint32_t>(move.second)} << 32;
}
TILEWRIGHT_EMU_INSTRUCTION uint64_t __builtin_amdgcn_read_exec() {
  tilewright::emu::LaneMove move{1};
  tilewright::emu::meet(move, tilewright::emu::ballot, TILEWRIGHT_EMU_SITE);
  return static_cast<uint32_t>(move.result) | uint64_t{static_cast<uint32_t>(move.second)} << 32;
}
#if __AMDGCN_WAVEFRONT_SIZE == 32
TILEWRIGHT_EMU_INSTRUCTION unsigned __builtin_amdgcn_ballot_w32(bool value) {
  tilewright::emu::LaneMove move{value};
  tilewright::emu::meet(move, tilewright::emu::ballot, TILEWRIGHT_EMU_SITE);
  return static_cast<unsigned>(move.result);
}
#endif

// Rows of 16 lanes; each lane selects one of its own row (permlane16) or of the row beside it (permlanex16).
#if defined(__GFX11__) || defined(__GFX12__)
namespace tilewright::emu {
template <uint32_t kOtherRow>
TILEWRIGHT_EMU_PLAIN static inline void permute_row(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    LaneMove& move = operands_of<LaneMove>(view, lane);
    const uint32_t selectors = static_cast<uint32_t>((lane & 8) != 0 ? move.second : move.selector);
    const uint32_t source = ((lane & ~15u) ^ kOtherRow) | (selectors >> 4 * (lane & 7) & 15);
    move.result = value_of(view, static_cast<int>(source), move.bound_control ? 0 : move.old);
  }
}
}  // namespace tilewright::emu
#define TILEWRIGHT_EMU_PERMLANE(name, other_row)                                                              \
  TILEWRIGHT_EMU_INSTRUCTION unsigned __builtin_amdgcn_##name(unsigned old, unsigned value, unsigned low,     \
                                                              unsigned high, bool, bool bound_control) {      \
    tilewright::emu::LaneMove move{static_cast<int>(value), static_cast<int>(low), static_cast<int>(high), 0, \
                                   static_cast<int>(old),   bound_control};                                   \
    tilewright::emu::meet(move, tilewright::emu::permute_row<other_row>, TILEWRIGHT_EMU_SITE);                \
    return static_cast<unsigned>(move.result);                                                                \
  }
TILEWRIGHT_EMU_PERMLANE(permlane16, 0)
TILEWRIGHT_EMU_PERMLANE(permlanex16, 16)
#undef TILEWRIGHT_EMU_PERMLANE
#endif

// The upper half of each pair of groups in the first register changes places with the lower half in the second.
#if defined(__gfx950__)
namespace tilewright::emu {
using TwoWords = unsigned __attribute__((vector_size(8)));
template <uint32_t kGroup>
TILEWRIGHT_EMU_PLAIN static inline void swap_groups(WaveView* view) {
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    LaneMove& move = operands_of<LaneMove>(view, lane);
    move.result = move.value;
    move.selector = move.second;
  }
  TILEWRIGHT_EMU_FOR_LANES(view, lane) {
    const uint32_t partner = lane ^ kGroup;
    if ((lane & kGroup) == 0 || !is_active(view, partner)) continue;
    operands_of<LaneMove>(view, lane).result = operands_of<LaneMove>(view, partner).second;
    operands_of<LaneMove>(view, partner).selector = operands_of<LaneMove>(view, lane).value;
  }
}
}  // namespace tilewright::emu
#define TILEWRIGHT_EMU_SWAP(name, group)                                                                              \
  TILEWRIGHT_EMU_INSTRUCTION tilewright::emu::TwoWords __builtin_amdgcn_##name(unsigned first, unsigned second, bool, \
                                                                               bool) {                                \
    tilewright::emu::LaneMove move{static_cast<int>(first), 0, static_cast<int>(second)};                             \
    tilewright::emu::meet(move, tilewright::emu::swap_groups<group>, TILEWRIGHT_EMU_SITE);                            \
    return tilewright::emu::TwoWords{static_cast<unsigned>(move.result), static_cast<unsigned>(move.selector)};       \
  }
TILEWRIGHT_EMU_SWAP(permlane16_swap, 16)
TILEWRIGHT_EMU_SWAP(permlane32_swap, 32)
#undef TILEWRIGHT_EMU_SWAP
#endif
