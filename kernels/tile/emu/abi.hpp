// SPDX-License-Identifier: MIT
// What an emulated AMD kernel (a shared object of the host compiler) and the engine that runs it (src/device/emu) share:
// plain C structs and a table of functions. A kernel links nothing of the library; it finds the table through its stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::emu {

inline constexpr uint32_t kAbiVersion = 2;
inline constexpr uint32_t kMaxLanes = 64;
// One work-item is one fiber. Its stack is this large and aligned so; LaneState lies near its upper end. Running code finds
// its own by its stack pointer, on every host thread, without thread-local storage.
inline constexpr size_t kStackBytes = size_t{128} << 10;
// Below this a lane has too much private memory. No frame of a kernel is as large.
inline constexpr size_t kStackReserve = size_t{32} << 10;
// Stacks of neighbouring lanes begin in different sets of a cache: LaneState lies this much lower from stack to stack.
inline constexpr size_t kStackShift = 192, kStackShifts = 64;

struct EngineTable;

struct LaneState {
  const EngineTable* engine;
  void* work_item;                                               // the engine's own
  uint32_t work_item_id[3], workgroup_id[3], block[3], grid[3];  // block: work-items of a workgroup; grid: workgroups
  uint32_t lane, wave;                                           // within the wave; within the workgroup
  unsigned char* lds;
  uint32_t lds_bytes;
};

// Where it lies, from any address of the stack.
__attribute__((no_sanitize("thread", "alignment"))) inline LaneState* lane_state_of(void* in_stack) {
  const uintptr_t here = reinterpret_cast<uintptr_t>(in_stack), end = (here | (kStackBytes - 1)) + 1;
  const uintptr_t at = end - sizeof(LaneState) - (end / kStackBytes % kStackShifts) * kStackShift;
  return reinterpret_cast<LaneState*>(static_cast<unsigned char*>(in_stack) + static_cast<ptrdiff_t>(at - here));
}

// What a function that runs once for a whole wave sees.
struct WaveView {
  uint64_t active;              // lanes that are here
  uint32_t lanes;               // of a wave on this target
  uint32_t width;               // lanes that the launch gave this wave: fewer than `lanes` at the end of a workgroup
  void* operands[kMaxLanes];    // what each active lane handed in
  LaneState* state[kMaxLanes];  // of each active lane
};
using WaveFunction = void (*)(WaveView* view);

enum AccessKind : uint32_t { kRead = 0, kWrite = 1, kAtomic = 2 };
enum AtomicOperation : uint32_t {
  kAtomicLoad,
  kAtomicStore,
  kAtomicExchange,
  kAtomicAdd,
  kAtomicSub,
  kAtomicAnd,
  kAtomicOr,
  kAtomicXor,
  kAtomicCompareExchange,
};

// `site` is where in the kernel's code: lanes that meet at one operation come from one place.
struct EngineTable {
  uint32_t version;
  uint32_t bytes;  // of this struct
  // A load or store that is about to happen. Does not return when it would leave its buffer: the lane ends there.
  void (*access)(LaneState* lane, const void* address, size_t bytes, AccessKind kind, const void* site);
  // Of 1, 2, 4 or 8 bytes, checked as an access; returns what was there. `expected` counts for a comparison alone. Whoever
  // loads may be waiting for somebody: the others get their turn.
  uint64_t (*atomic)(LaneState* lane, void* address, uint32_t bytes, AtomicOperation operation, uint64_t value,
                     uint64_t expected, const void* site);
  // Does not return.
  void (*misaligned)(LaneState* lane, const void* address, uint32_t alignment, const char* file, uint32_t line,
                     const void* site);
  // Waits for the lanes of the wave that come here; the last one calls `run` for all.
  void (*lockstep)(LaneState* lane, void* operands, WaveFunction run, const void* site);
  void (*barrier)(LaneState* lane, const void* site);
  // Lets other waves run: whoever spins on memory calls it.
  void (*yield)(LaneState* lane);
  // Copies whose data lands at a wait: begin() is one instruction of the wave, copy() each lane's part. wait() leaves the
  // newest `outstanding` instructions in flight. Called from functions that run for the whole wave.
  void (*begin_copies)(LaneState* lane);
  void (*copy_later)(LaneState* lane, void* to, const void* from, size_t bytes, const void* site);
  void (*wait_copies)(LaneState* lane, uint32_t outstanding);
  // An instruction that this target refuses in this state ("matrix instruction with lanes switched off").
  void (*fault)(LaneState* lane, const char* text, const void* site);
  // This lane handed a register that nobody wrote to the instruction at which its wave met. `operand` says which.
  void (*unwritten_register)(LaneState* lane, const char* operand);
};

// A kernel's entry. The two numbers are those of a CPU kernel's entry, and mean nothing here.
using KernelEntry = void (*)(const void* kernel_arguments, unsigned, unsigned);

// `tilewright_emu_object`, exported by every emulated shared object.
struct ObjectInfo {
  uint32_t abi_version;
  uint32_t wave_size;
  char target[24];
};

}  // namespace tilewright::emu
