// SPDX-License-Identifier: MIT
// The kernel's side of the emulation: its own lane, the meeting of a wave, and entries.
#pragma once

#include "tile/emu/abi.hpp"

#ifndef TILEWRIGHT_EMULATED_TARGET
#error "an emulated kernel is compiled for a target: -DTILEWRIGHT_EMULATED_TARGET=\"gfx942\" and its macros"
#endif

// Functions of the emulation are not instrumented. An instruction is never inlined: the address that it returns to is
// where the lanes of a wave meet.
#ifdef __clang__  // which would still announce their atomics
#define TILEWRIGHT_EMU_UNSEEN disable_sanitizer_instrumentation, no_sanitize("thread", "alignment")
#else
#define TILEWRIGHT_EMU_UNSEEN no_sanitize("thread", "alignment")
#endif
#define TILEWRIGHT_EMU_PLAIN __attribute__((unused, TILEWRIGHT_EMU_UNSEEN))
#define TILEWRIGHT_EMU_INSTRUCTION static __attribute__((noinline, unused, TILEWRIGHT_EMU_UNSEEN))
#define TILEWRIGHT_EMU_SITE __builtin_return_address(0)

namespace tilewright::emu {

inline constexpr uint32_t kWaveSize = __AMDGCN_WAVEFRONT_SIZE;

TILEWRIGHT_EMU_PLAIN static inline LaneState* this_lane() { return lane_state_of(__builtin_frame_address(0)); }

// Every active lane hands in its operands (results go there, too); `run` is called once, with all of them.
template <class Operands>
TILEWRIGHT_EMU_PLAIN static inline void meet(Operands& operands, WaveFunction run, const void* site) {
  LaneState* lane = this_lane();
  lane->engine->lockstep(lane, &operands, run, site);
}

template <class Operands>
TILEWRIGHT_EMU_PLAIN static inline Operands& operands_of(const WaveView* view, uint32_t lane) {
  return *static_cast<Operands*>(view->operands[lane]);
}
TILEWRIGHT_EMU_PLAIN static inline bool is_active(const WaveView* view, uint32_t lane) {
  return view->active >> lane & 1;
}
TILEWRIGHT_EMU_PLAIN static inline uint32_t first_active(const WaveView* view) {
  return static_cast<uint32_t>(__builtin_ctzll(view->active));
}

// Matrix instructions ignore EXEC on the hardware; a kernel that switches lanes off around one means something else.
TILEWRIGHT_EMU_PLAIN static inline bool require_whole_wave(const WaveView* view, const char* instruction,
                                                           const void* site) {
  if (__builtin_popcountll(view->active) == static_cast<int>(view->lanes)) return true;
  LaneState* lane = view->state[first_active(view)];
  lane->engine->fault(lane, instruction, site);
  return false;
}

// Kernel arguments stand one after another, each at its own alignment, as in a code object's kernarg segment.
template <size_t... Index>
struct Indices {};
template <size_t Count, size_t... Index>
struct MakeIndices : MakeIndices<Count - 1, Count - 1, Index...> {};
template <size_t... Index>
struct MakeIndices<0, Index...> {
  using Type = Indices<Index...>;
};
template <class Type>
struct Plain {
  using Value = Type;
};
template <class Type>
struct Plain<const Type> {
  using Value = Type;
};

template <class... Arguments, size_t... Index>
TILEWRIGHT_EMU_PLAIN static inline void call_with(void (*kernel)(Arguments...), const void* segment,
                                                  Indices<Index...>) {
  size_t offsets[sizeof...(Arguments) + 1] = {};
  const size_t sizes[] = {sizeof(Arguments)..., 0}, alignments[] = {alignof(Arguments)..., 1};
  size_t at = 0;
  for (size_t i = 0; i < sizeof...(Arguments); ++i) {
    at = (at + alignments[i] - 1) & ~(alignments[i] - 1);
    offsets[i] = at;
    at += sizes[i];
  }
  const unsigned char* bytes = static_cast<const unsigned char*>(segment);
  kernel(*reinterpret_cast<const typename Plain<Arguments>::Value*>(bytes + offsets[Index])...);
}
template <class... Arguments>
TILEWRIGHT_EMU_PLAIN static inline void call(void (*kernel)(Arguments...), const void* segment) {
  call_with(kernel, segment, typename MakeIndices<sizeof...(Arguments)>::Type());
}

}  // namespace tilewright::emu

extern "C" {
extern const tilewright::emu::ObjectInfo tilewright_emu_object __attribute__((visibility("default")));
const tilewright::emu::ObjectInfo tilewright_emu_object = {tilewright::emu::kAbiVersion, tilewright::emu::kWaveSize,
                                                           TILEWRIGHT_EMULATED_TARGET};
}

// The entry by which the engine calls `kernel`, a __global__ function.
#define TILEWRIGHT_EMULATED_ENTRY(entry, kernel)                                                                    \
  extern "C" __attribute__((visibility("default"), TILEWRIGHT_EMU_UNSEEN)) void entry(const void* kernel_arguments, \
                                                                                      unsigned, unsigned) {         \
    tilewright::emu::call(kernel, kernel_arguments);                                                                \
  }

// A workgroup's LDS: `extern __shared__` on a GPU. There are no static __shared__ variables: fibers of several workgroups
// run at a time.
#define TILEWRIGHT_DYNAMIC_LDS(name) unsigned char* const name = tilewright::emu::this_lane()->lds
