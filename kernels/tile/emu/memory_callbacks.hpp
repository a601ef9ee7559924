// SPDX-License-Identifier: MIT
// Emulated kernels are compiled with -fsanitize=thread,alignment but never linked to a sanitizer: what the compiler calls
// in front of every load and store, and instead of every atomic, is defined here and goes to the engine. Private memory
// (the lane's own stack) passes. g++ announces 1 to 16 bytes and ranges, and copies longer ones by memcpy; clang knows 1 to
// 16 bytes and __tsan_memcpy, and is silent about vectors of more than 16 bytes, which no AMD instruction loads either.
//
// Every kernel carries all of them, hence a few lines of assembly for each and four functions: compiled as C++ they would
// take longer than most kernels.
#pragma once

#include "tile/emu/runtime.hpp"

// Named by assembly or by the compiler alone. Not as an attribute: g++ declared memcpy itself.
#define TILEWRIGHT_EMU_OWN extern "C" __attribute__((used, noinline, TILEWRIGHT_EMU_UNSEEN))

namespace tilewright::emu {

TILEWRIGHT_EMU_PLAIN static inline void announce(const void* address, size_t bytes, AccessKind kind, const void* site) {
  LaneState* lane = this_lane();
  if ((reinterpret_cast<uintptr_t>(address) ^ reinterpret_cast<uintptr_t>(lane)) < kStackBytes) return;
  lane->engine->access(lane, address, bytes, kind, site);
}
TILEWRIGHT_EMU_PLAIN static inline void copy_bytes(void* to, const void* from, size_t bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
TILEWRIGHT_EMU_PLAIN static inline void fill_bytes(void* to, int value, size_t bytes) {
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
}

// What the assembly below passes as numbers.
inline constexpr uint32_t kReadAndWrite = 3;
static_assert(kRead == 0 && kWrite == 1);
static_assert(kAtomicLoad == 0 && kAtomicStore == 1 && kAtomicExchange == 2 && kAtomicAdd == 3 && kAtomicSub == 4 &&
              kAtomicAnd == 5 && kAtomicOr == 6 && kAtomicXor == 7 && kAtomicCompareExchange == 8);

}  // namespace tilewright::emu

TILEWRIGHT_EMU_OWN void tilewright_emu_access(const void* address, size_t bytes, uint32_t kind, const void* site) {
  if (kind == tilewright::emu::kReadAndWrite) {
    tilewright::emu::announce(address, bytes, tilewright::emu::kRead, site);
    kind = tilewright::emu::kWrite;
  }
  tilewright::emu::announce(address, bytes, static_cast<tilewright::emu::AccessKind>(kind), site);
}
// The engine looks at the stack, and ends the lane.
TILEWRIGHT_EMU_OWN void tilewright_emu_enter(const void* site) {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here % tilewright::emu::kStackBytes >= tilewright::emu::kStackReserve) return;
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  lane->engine->access(lane, lane, 1, tilewright::emu::kRead, site);
}
// `what`: bytes * 16 + operation.
TILEWRIGHT_EMU_OWN uint64_t tilewright_emu_atomic(void* address, uint64_t value, uint64_t expected, uint32_t what,
                                                  const void* site) {
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  const auto operation = static_cast<tilewright::emu::AtomicOperation>(what & 15);
  return lane->engine->atomic(lane, address, what >> 4, operation, value, expected, site);
}
// What was there goes to *expected.
TILEWRIGHT_EMU_OWN int tilewright_emu_compare_exchange(void* address, void* expected, uint64_t value, uint32_t what,
                                                       const void* site) {
  const uint32_t bytes = what >> 4;
  uint64_t wanted = 0;
  tilewright::emu::copy_bytes(&wanted, expected, bytes);
  const uint64_t before = tilewright_emu_atomic(address, value, wanted, what, site);
  if (before == wanted) return 1;
  tilewright::emu::copy_bytes(expected, &before, bytes);
  return 0;
}

// clang-format off
__asm__(R"(
.pushsection .text
.hidden tilewright_emu_access
.hidden tilewright_emu_enter
.hidden tilewright_emu_atomic
.hidden tilewright_emu_compare_exchange

.macro tilewright_emu_callback name
  .globl __tsan_\name
  .hidden __tsan_\name
  .type __tsan_\name,@function
  __tsan_\name:
.endm

# The address comes in rdi, of ranges the number of bytes in rsi.
.macro tilewright_emu_range name, kind
  tilewright_emu_callback \name
  mov $\kind,%edx
  mov (%rsp),%rcx
  jmp tilewright_emu_access
.endm
.macro tilewright_emu_load_or_store name, bytes, kind
  tilewright_emu_callback \name\bytes
  mov $\bytes,%esi
  mov $\kind,%edx
  mov (%rsp),%rcx
  jmp tilewright_emu_access
.endm
.irp bytes, 1, 2, 4, 8, 16
  tilewright_emu_load_or_store read, \bytes, 0
  tilewright_emu_load_or_store write, \bytes, 1
  tilewright_emu_load_or_store read_write, \bytes, 3
  tilewright_emu_load_or_store unaligned_read, \bytes, 0
  tilewright_emu_load_or_store unaligned_write, \bytes, 1
.endr
tilewright_emu_range read_range, 0
tilewright_emu_range write_range, 1

# The value comes in rsi, of comparisons in rdx; memory orders after it.
.macro tilewright_emu_atomic_callback name, what, function
  tilewright_emu_callback \name
  mov $\what,%ecx
  mov (%rsp),%r8
  jmp \function
.endm
.macro tilewright_emu_atomics bits, bytes
  tilewright_emu_atomic_callback atomic\bits\()_load, \bytes*16, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_store, \bytes*16+1, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_exchange, \bytes*16+2, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_fetch_add, \bytes*16+3, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_fetch_sub, \bytes*16+4, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_fetch_and, \bytes*16+5, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_fetch_or, \bytes*16+6, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_fetch_xor, \bytes*16+7, tilewright_emu_atomic
  tilewright_emu_atomic_callback atomic\bits\()_compare_exchange_strong, \bytes*16+8, tilewright_emu_compare_exchange
  tilewright_emu_atomic_callback atomic\bits\()_compare_exchange_weak, \bytes*16+8, tilewright_emu_compare_exchange
  tilewright_emu_callback atomic\bits\()_compare_exchange_val
  xchg %rsi,%rdx
  mov $\bytes*16+8,%ecx
  mov (%rsp),%r8
  jmp tilewright_emu_atomic
.endm
tilewright_emu_atomics 8, 1
tilewright_emu_atomics 16, 2
tilewright_emu_atomics 32, 4
tilewright_emu_atomics 64, 8

tilewright_emu_callback func_entry
  mov (%rsp),%rdi
  jmp tilewright_emu_enter
.irp name, func_exit, init, atomic_thread_fence, atomic_signal_fence
  tilewright_emu_callback \name
  ret
.endr
.popsection
)");
// clang-format on

#define TILEWRIGHT_EMU_COPY(name)                                                        \
  TILEWRIGHT_EMU_OWN void* name(void* to, const void* from, size_t bytes) {              \
    if (bytes == 0) return to;                                                           \
    tilewright::emu::announce(from, bytes, tilewright::emu::kRead, TILEWRIGHT_EMU_SITE); \
    tilewright::emu::announce(to, bytes, tilewright::emu::kWrite, TILEWRIGHT_EMU_SITE);  \
    tilewright::emu::copy_bytes(to, from, bytes);                                        \
    return to;                                                                           \
  }
#define TILEWRIGHT_EMU_FILL(name)                                                       \
  TILEWRIGHT_EMU_OWN void* name(void* to, int value, size_t bytes) {                    \
    if (bytes == 0) return to;                                                          \
    tilewright::emu::announce(to, bytes, tilewright::emu::kWrite, TILEWRIGHT_EMU_SITE); \
    tilewright::emu::fill_bytes(to, value, bytes);                                      \
    return to;                                                                          \
  }
#ifdef __clang__
__asm__(".hidden __tsan_memcpy\n.hidden __tsan_memset");
TILEWRIGHT_EMU_COPY(__tsan_memcpy)
TILEWRIGHT_EMU_FILL(__tsan_memset)
#else
__asm__(".hidden memcpy\n.hidden memset");
TILEWRIGHT_EMU_COPY(memcpy)
TILEWRIGHT_EMU_FILL(memset)
#endif

// -fsanitize=alignment: the address is no multiple of what its type promises.
namespace tilewright::emu {
struct TypeMismatch {
  const char* file;
  uint32_t line, column;
  const void* type;
  unsigned char log_alignment;
  unsigned char kind;
};
}  // namespace tilewright::emu
TILEWRIGHT_EMU_OWN __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(
    const tilewright::emu::TypeMismatch* mismatch, void* address) {
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  lane->engine->misaligned(lane, address, 1u << mismatch->log_alignment, mismatch->file, mismatch->line,
                           TILEWRIGHT_EMU_SITE);
}
