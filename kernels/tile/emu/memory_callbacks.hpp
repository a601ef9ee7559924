// SPDX-License-Identifier: MIT
// Emulated kernels are compiled with -fsanitize=thread,alignment but never linked to a sanitizer: what the compiler calls
// in front of every load and store is defined here and goes to the engine. Private memory (the lane's own stack) passes.
// g++ announces 1 to 16 bytes and ranges, and copies longer ones by memcpy; clang knows 1 to 16 bytes and __tsan_memcpy,
// and is silent about vectors of more than 16 bytes, which no AMD instruction loads either.
#pragma once

#include "tile/emu/runtime.hpp"

#define TILEWRIGHT_EMU_CALLBACK extern "C" __attribute__((visibility("hidden"), used, noinline, TILEWRIGHT_EMU_UNSEEN))

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

}  // namespace tilewright::emu

TILEWRIGHT_EMU_CALLBACK void __tsan_init() {}
TILEWRIGHT_EMU_CALLBACK void __tsan_func_entry(void*) {
  if (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) % tilewright::emu::kStackBytes >=
      tilewright::emu::kStackReserve) {
    return;
  }
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();  // the engine looks at the stack, and ends the lane
  lane->engine->access(lane, lane, 1, tilewright::emu::kRead, TILEWRIGHT_EMU_SITE);
}
TILEWRIGHT_EMU_CALLBACK void __tsan_func_exit() {}

#define TILEWRIGHT_EMU_ACCESS(name, bytes, kind)                                                       \
  TILEWRIGHT_EMU_CALLBACK void __tsan_##name(void* address) {                                          \
    tilewright::emu::announce(address, bytes, tilewright::emu::AccessKind::kind, TILEWRIGHT_EMU_SITE); \
  }
#define TILEWRIGHT_EMU_ACCESSES(bytes)                                                                   \
  TILEWRIGHT_EMU_ACCESS(read##bytes, bytes, kRead)                                                       \
  TILEWRIGHT_EMU_ACCESS(write##bytes, bytes, kWrite)                                                     \
  TILEWRIGHT_EMU_ACCESS(unaligned_read##bytes, bytes, kRead)                                             \
  TILEWRIGHT_EMU_ACCESS(unaligned_write##bytes, bytes, kWrite)                                           \
  TILEWRIGHT_EMU_CALLBACK void __tsan_read_write##bytes(void* address) {                                 \
    tilewright::emu::announce(address, bytes, tilewright::emu::AccessKind::kRead, TILEWRIGHT_EMU_SITE);  \
    tilewright::emu::announce(address, bytes, tilewright::emu::AccessKind::kWrite, TILEWRIGHT_EMU_SITE); \
  }
TILEWRIGHT_EMU_ACCESSES(1)
TILEWRIGHT_EMU_ACCESSES(2)
TILEWRIGHT_EMU_ACCESSES(4)
TILEWRIGHT_EMU_ACCESSES(8)
TILEWRIGHT_EMU_ACCESSES(16)

TILEWRIGHT_EMU_CALLBACK void __tsan_read_range(void* address, size_t bytes) {
  tilewright::emu::announce(address, bytes, tilewright::emu::kRead, TILEWRIGHT_EMU_SITE);
}
TILEWRIGHT_EMU_CALLBACK void __tsan_write_range(void* address, size_t bytes) {
  tilewright::emu::announce(address, bytes, tilewright::emu::kWrite, TILEWRIGHT_EMU_SITE);
}

// Not as an attribute: g++ declared memcpy itself.
#define TILEWRIGHT_EMU_OWN extern "C" __attribute__((used, noinline, TILEWRIGHT_EMU_UNSEEN))
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

// Whoever loads atomically may be waiting for somebody: the others get their turn.
#define TILEWRIGHT_EMU_ATOMIC(name, Type, call)                                                         \
  {                                                                                                     \
    tilewright::emu::announce(const_cast<const Type*>(address), sizeof(Type), tilewright::emu::kAtomic, \
                              TILEWRIGHT_EMU_SITE);                                                     \
    return call;                                                                                        \
  }
#define TILEWRIGHT_EMU_FETCH(bits, Type, operation)                                                             \
  TILEWRIGHT_EMU_CALLBACK Type __tsan_atomic##bits##_fetch_##operation(volatile Type* address, Type value, int) \
      TILEWRIGHT_EMU_ATOMIC(fetch, Type, __atomic_fetch_##operation(address, value, __ATOMIC_SEQ_CST))
#define TILEWRIGHT_EMU_ATOMICS(bits, Type)                                                                            \
  TILEWRIGHT_EMU_CALLBACK Type __tsan_atomic##bits##_load(const volatile Type* address, int) {                        \
    tilewright::emu::LaneState* lane = tilewright::emu::this_lane();                                                  \
    tilewright::emu::announce(const_cast<const Type*>(address), sizeof(Type), tilewright::emu::kAtomic,               \
                              TILEWRIGHT_EMU_SITE);                                                                   \
    lane->engine->yield(lane);                                                                                        \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                   \
  TILEWRIGHT_EMU_CALLBACK void __tsan_atomic##bits##_store(volatile Type* address, Type value, int)                   \
      TILEWRIGHT_EMU_ATOMIC(store, Type, __atomic_store_n(address, value, __ATOMIC_SEQ_CST))                          \
          TILEWRIGHT_EMU_CALLBACK Type __tsan_atomic##bits##_exchange(volatile Type* address, Type value, int)        \
              TILEWRIGHT_EMU_ATOMIC(exchange, Type, __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST))            \
                  TILEWRIGHT_EMU_FETCH(bits, Type, add) TILEWRIGHT_EMU_FETCH(bits, Type, sub) TILEWRIGHT_EMU_FETCH(   \
                      bits, Type, and) TILEWRIGHT_EMU_FETCH(bits, Type, or) TILEWRIGHT_EMU_FETCH(bits, Type, xor)     \
                      TILEWRIGHT_EMU_CALLBACK int __tsan_atomic##bits##_compare_exchange_strong(                      \
                          volatile Type* address, Type* expected, Type value, int,                                    \
                          int) TILEWRIGHT_EMU_ATOMIC(exchange, Type,                                                  \
                                                     __atomic_compare_exchange_n(address, expected, value, false,     \
                                                                                 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) \
                          TILEWRIGHT_EMU_CALLBACK int __tsan_atomic##bits##_compare_exchange_weak(                    \
                              volatile Type* address, Type* expected, Type value, int, int)                           \
                              TILEWRIGHT_EMU_ATOMIC(exchange, Type,                                                   \
                                                    __atomic_compare_exchange_n(address, expected, value, false,      \
                                                                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))  \
                                  TILEWRIGHT_EMU_CALLBACK Type __tsan_atomic##bits##_compare_exchange_val(            \
                                      volatile Type* address, Type expected, Type value, int, int) {                  \
    tilewright::emu::announce(const_cast<const Type*>(address), sizeof(Type), tilewright::emu::kAtomic,               \
                              TILEWRIGHT_EMU_SITE);                                                                   \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
    return expected;                                                                                                  \
  }
TILEWRIGHT_EMU_ATOMICS(8, uint8_t)
TILEWRIGHT_EMU_ATOMICS(16, uint16_t)
TILEWRIGHT_EMU_ATOMICS(32, uint32_t)
TILEWRIGHT_EMU_ATOMICS(64, uint64_t)
TILEWRIGHT_EMU_CALLBACK void __tsan_atomic_thread_fence(int) {}
TILEWRIGHT_EMU_CALLBACK void __tsan_atomic_signal_fence(int) {}

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
TILEWRIGHT_EMU_CALLBACK void __ubsan_handle_type_mismatch_v1(const tilewright::emu::TypeMismatch* mismatch,
                                                             void* address) {
  tilewright::emu::LaneState* lane = tilewright::emu::this_lane();
  lane->engine->misaligned(lane, address, 1u << mismatch->log_alignment, mismatch->file, mismatch->line,
                           TILEWRIGHT_EMU_SITE);
}
