// SPDX-License-Identifier: MIT
// Arithmetic of one lane. Transcendental instructions have the host's precision, which is no worse than the hardware's.
// Sources: AMD CDNA3 ISA reference, V_EXP_F32, V_LOG_F32, V_RCP_F32, V_RSQ_F32, V_SQRT_F32, V_SIN_F32 (arguments are turns),
// V_FRACT_F32, V_MED3_F32, V_CVT_PKRTZ_F16_F32, V_PERM_B32, V_ALIGNBYTE_B32, V_BFE_U32, V_BFE_I32.
#pragma once

#include "tile/emu/runtime.hpp"

#define TILEWRIGHT_EMU_MATH(Type, name, parameters) \
  TILEWRIGHT_EMU_PLAIN static inline Type __builtin_amdgcn_##name parameters

TILEWRIGHT_EMU_MATH(float, exp2f, (float x)) { return __builtin_exp2f(x); }
TILEWRIGHT_EMU_MATH(float, logf, (float x)) { return __builtin_log2f(x); }
TILEWRIGHT_EMU_MATH(float, rcpf, (float x)) { return 1.0f / x; }
TILEWRIGHT_EMU_MATH(float, rsqf, (float x)) { return 1.0f / __builtin_sqrtf(x); }
TILEWRIGHT_EMU_MATH(float, sqrtf, (float x)) { return __builtin_sqrtf(x); }
TILEWRIGHT_EMU_MATH(float, sinf, (float x)) { return __builtin_sinf(x * 6.283185307179586f); }
TILEWRIGHT_EMU_MATH(float, cosf, (float x)) { return __builtin_cosf(x * 6.283185307179586f); }
TILEWRIGHT_EMU_MATH(float, fractf, (float x)) { return x - __builtin_floorf(x); }
TILEWRIGHT_EMU_MATH(float, ldexpf, (float x, int exponent)) { return __builtin_ldexpf(x, exponent); }
TILEWRIGHT_EMU_MATH(float, fmed3f, (float a, float b, float c)) {
  return __builtin_fmaxf(__builtin_fminf(a, b), __builtin_fminf(__builtin_fmaxf(a, b), c));
}

namespace tilewright::emu {

// Rounds towards zero: the nearest value, or the one before it.
TILEWRIGHT_EMU_PLAIN static inline _Float16 half_towards_zero(float x) {
  _Float16 rounded = static_cast<_Float16>(x);
  const float back = static_cast<float>(rounded);
  if (__builtin_fabsf(back) <= __builtin_fabsf(x) || x != x) return rounded;
  return __builtin_bit_cast(_Float16, static_cast<uint16_t>(__builtin_bit_cast(uint16_t, rounded) - 1));
}
using TwoHalves = _Float16 __attribute__((vector_size(4)));

}  // namespace tilewright::emu

TILEWRIGHT_EMU_MATH(tilewright::emu::TwoHalves, cvt_pkrtz, (float a, float b)) {
  return tilewright::emu::TwoHalves{tilewright::emu::half_towards_zero(a), tilewright::emu::half_towards_zero(b)};
}

// Bytes 0 to 3 are the second operand's, 4 to 7 the first one's; 8 to 11 their signs, 12 zero, above all bits set.
TILEWRIGHT_EMU_MATH(unsigned, perm, (unsigned first, unsigned second, unsigned selectors)) {
  const uint64_t bytes = uint64_t{first} << 32 | second;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned selector = selectors >> 8 * i & 255;
    unsigned byte = 255;
    if (selector < 8) byte = static_cast<unsigned>(bytes >> 8 * selector & 255);
    if (selector >= 8 && selector < 12) byte = (bytes >> (16 * (selector - 8) + 15) & 1) != 0 ? 255 : 0;
    if (selector == 12) byte = 0;
    result |= byte << 8 * i;
  }
  return result;
}
TILEWRIGHT_EMU_MATH(unsigned, alignbyte, (unsigned high, unsigned low, unsigned bytes)) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> 8 * (bytes & 3));
}
TILEWRIGHT_EMU_MATH(unsigned, alignbit, (unsigned high, unsigned low, unsigned bits)) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (bits & 31));
}
TILEWRIGHT_EMU_MATH(unsigned, ubfe, (unsigned value, unsigned first, unsigned width)) {
  return value >> (first & 31) & ((1u << (width & 31)) - 1);
}
TILEWRIGHT_EMU_MATH(int, sbfe, (int value, unsigned first, unsigned width)) {
  if ((width & 31) == 0) return 0;
  const unsigned shift = 32 - (width & 31);
  return static_cast<int>(static_cast<unsigned>(value >> (first & 31)) << shift) >> shift;
}
#undef TILEWRIGHT_EMU_MATH
