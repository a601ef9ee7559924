// SPDX-License-Identifier: MIT
// Floating-point atomics of global memory. Integers take the compiler's own __atomic_* (memory_callbacks.hpp). Sources: AMD
// CDNA3 ISA reference, GLOBAL_ATOMIC_ADD_F32, _F64, _PK_ADD_F16; RDNA3 ISA reference (f32 only); RDNA4 ISA reference (f32 and
// pk_f16). What was there before is returned.
#pragma once

#include "tile/emu/instructions/math.hpp"

namespace tilewright::emu {

// `Word` holds the bits of `Value`.
template <class Word, class Value>
TILEWRIGHT_EMU_PLAIN static inline Value add_atomically(Value* address, Value value, const void* site) {
  LaneState* lane = this_lane();
  lane->engine->access(lane, address, sizeof(Value), kAtomic, site);
  Word* word = reinterpret_cast<Word*>(address);
  Word before = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const Value sum = __builtin_bit_cast(Value, before) + value;
    if (__atomic_compare_exchange_n(word, &before, __builtin_bit_cast(Word, sum), false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      return __builtin_bit_cast(Value, before);
    }
  }
}

}  // namespace tilewright::emu

TILEWRIGHT_EMU_INSTRUCTION float __builtin_amdgcn_global_atomic_fadd_f32(float* address, float value) {
  return tilewright::emu::add_atomically<uint32_t>(address, value, TILEWRIGHT_EMU_SITE);
}
#if defined(__GFX9__)
TILEWRIGHT_EMU_INSTRUCTION double __builtin_amdgcn_global_atomic_fadd_f64(double* address, double value) {
  return tilewright::emu::add_atomically<uint64_t>(address, value, TILEWRIGHT_EMU_SITE);
}
#endif
#if defined(__GFX9__) || defined(__GFX12__)
TILEWRIGHT_EMU_INSTRUCTION tilewright::emu::TwoHalves __builtin_amdgcn_global_atomic_fadd_v2f16(
    tilewright::emu::TwoHalves* address, tilewright::emu::TwoHalves value) {
  return tilewright::emu::add_atomically<uint32_t>(address, value, TILEWRIGHT_EMU_SITE);
}
#endif
