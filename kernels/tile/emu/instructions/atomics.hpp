// SPDX-License-Identifier: MIT
// Floating-point atomics of global memory, buffers and LDS. Integers take the compiler's own __atomic_*
// (memory_callbacks.hpp). What was there before is returned. Sources: AMD CDNA3 ISA reference, GLOBAL_ATOMIC_ADD_F32, _F64,
// _PK_ADD_F16, BUFFER_ATOMIC_*, DS_ADD_F32, DS_MIN_F32, DS_MAX_F32, DS_ADD_F64, DS_PK_ADD_F16, DS_PK_ADD_BF16; RDNA3 ISA
// reference (f32 only) and RDNA4 ISA reference (f32, and pairs), the same instructions; which target has which as clang's
// builtins demand it (BuiltinsAMDGPU.def).
#pragma once

#include "tile/emu/instructions/buffer.hpp"
#include "tile/emu/instructions/math.hpp"

namespace tilewright::emu {

using TwoBrains = short __attribute__((vector_size(4)));  // bf16, as clang's builtins take them

struct Add {
  template <class Value>
  TILEWRIGHT_EMU_PLAIN static Value of(Value a, Value b) {
    return a + b;
  }
};
struct AddBrains {
  TILEWRIGHT_EMU_PLAIN static float widen(short bits) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(static_cast<uint16_t>(bits)) << 16);
  }
  TILEWRIGHT_EMU_PLAIN static short sum(short a, short b) {  // to nearest, ties to even
    const float exact = widen(a) + widen(b);
    uint32_t bits = __builtin_bit_cast(uint32_t, exact);
    if (exact != exact) {
      bits |= 1u << 22;
    } else {
      bits += 0x7fff + (bits >> 16 & 1);
    }
    return static_cast<short>(bits >> 16);
  }
  TILEWRIGHT_EMU_PLAIN static TwoBrains of(TwoBrains a, TwoBrains b) {
    return TwoBrains{sum(a[0], b[0]), sum(a[1], b[1])};
  }
};
// A number wins against NaN.
struct Least {
  template <class Value>
  TILEWRIGHT_EMU_PLAIN static Value of(Value a, Value b) {
    return b != b || a < b ? a : b;
  }
};
struct Greatest {
  template <class Value>
  TILEWRIGHT_EMU_PLAIN static Value of(Value a, Value b) {
    return b != b || a > b ? a : b;
  }
};

template <size_t kBytes>
struct WordOf {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
};

template <class Operation, class Value>
TILEWRIGHT_EMU_PLAIN static inline Value apply_atomically(Value* address, Value value, const void* site) {
  using Word = typename WordOf<sizeof(Value)>::Type;
  LaneState* lane = this_lane();
  lane->engine->access(lane, address, sizeof(Value), kAtomic, site);
  Word* word = reinterpret_cast<Word*>(address);
  Word before = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const Value after = Operation::of(__builtin_bit_cast(Value, before), value);
    if (__atomic_compare_exchange_n(word, &before, __builtin_bit_cast(Word, after), false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      return __builtin_bit_cast(Value, before);
    }
  }
}
// Past the end of the buffer nothing happens, and zero is returned.
template <class Operation, class Value>
TILEWRIGHT_EMU_PLAIN static inline Value apply_atomically(const BufferResource& buffer, int offset, int scalar_offset,
                                                          Value value, const void* site) {
  const uint64_t at = uint64_t{static_cast<uint32_t>(offset)} + static_cast<uint32_t>(scalar_offset);
  if (!in_range(buffer, at, sizeof(Value))) return Value{};
  return apply_atomically<Operation>(reinterpret_cast<Value*>(buffer.base + at), value, site);
}

}  // namespace tilewright::emu

#define TILEWRIGHT_EMU_POINTER_ATOMIC(name, Operation, Type)                                                   \
  TILEWRIGHT_EMU_INSTRUCTION Type __builtin_amdgcn_##name(Type* address, Type value) {                         \
    return tilewright::emu::apply_atomically<tilewright::emu::Operation>(address, value, TILEWRIGHT_EMU_SITE); \
  }
// Memory order, scope and volatile, which an emulated LDS does not need.
#define TILEWRIGHT_EMU_ORDERED_ATOMIC(name, Operation, Type)                                                   \
  TILEWRIGHT_EMU_INSTRUCTION Type __builtin_amdgcn_##name(Type* address, Type value, int, int, bool) {         \
    return tilewright::emu::apply_atomically<tilewright::emu::Operation>(address, value, TILEWRIGHT_EMU_SITE); \
  }
#define TILEWRIGHT_EMU_BUFFER_ATOMIC(name, Operation, Type)                                                    \
  TILEWRIGHT_EMU_INSTRUCTION Type __builtin_amdgcn_raw_ptr_buffer_atomic_##name(                               \
      Type value, __amdgpu_buffer_rsrc_t buffer, int offset, int scalar_offset, int) {                         \
    return tilewright::emu::apply_atomically<tilewright::emu::Operation>(buffer, offset, scalar_offset, value, \
                                                                         TILEWRIGHT_EMU_SITE);                 \
  }
TILEWRIGHT_EMU_POINTER_ATOMIC(global_atomic_fadd_f32, Add, float)
TILEWRIGHT_EMU_POINTER_ATOMIC(ds_atomic_fadd_f32, Add, float)
TILEWRIGHT_EMU_ORDERED_ATOMIC(ds_faddf, Add, float)
TILEWRIGHT_EMU_ORDERED_ATOMIC(ds_fminf, Least, float)
TILEWRIGHT_EMU_ORDERED_ATOMIC(ds_fmaxf, Greatest, float)
TILEWRIGHT_EMU_BUFFER_ATOMIC(add_i32, Add, int)
TILEWRIGHT_EMU_BUFFER_ATOMIC(fadd_f32, Add, float)
#if defined(__GFX9__)
TILEWRIGHT_EMU_POINTER_ATOMIC(global_atomic_fadd_f64, Add, double)
TILEWRIGHT_EMU_POINTER_ATOMIC(ds_atomic_fadd_f64, Add, double)
TILEWRIGHT_EMU_BUFFER_ATOMIC(fmin_f64, Least, double)
TILEWRIGHT_EMU_BUFFER_ATOMIC(fmax_f64, Greatest, double)
#else
TILEWRIGHT_EMU_BUFFER_ATOMIC(fmin_f32, Least, float)
TILEWRIGHT_EMU_BUFFER_ATOMIC(fmax_f32, Greatest, float)
#endif
#if defined(__GFX9__) || defined(__GFX12__)
TILEWRIGHT_EMU_POINTER_ATOMIC(global_atomic_fadd_v2f16, Add, tilewright::emu::TwoHalves)
TILEWRIGHT_EMU_BUFFER_ATOMIC(fadd_v2f16, Add, tilewright::emu::TwoHalves)
#endif
#if defined(__gfx942__) || defined(__gfx950__) || defined(__GFX12__)
TILEWRIGHT_EMU_POINTER_ATOMIC(ds_atomic_fadd_v2f16, Add, tilewright::emu::TwoHalves)
TILEWRIGHT_EMU_POINTER_ATOMIC(ds_atomic_fadd_v2bf16, AddBrains, tilewright::emu::TwoBrains)
#endif
#undef TILEWRIGHT_EMU_POINTER_ATOMIC
#undef TILEWRIGHT_EMU_ORDERED_ATOMIC
#undef TILEWRIGHT_EMU_BUFFER_ATOMIC
