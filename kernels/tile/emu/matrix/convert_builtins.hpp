// SPDX-License-Identifier: MIT
// clang's builtins of conversions between f32 and small floats, over convert.hpp.
#pragma once

#include "tile/emu/matrix/builtins.hpp"
#include "tile/emu/matrix/convert.hpp"

namespace tilewright::emu {
using TwoFloats = float __attribute__((vector_size(8)));
using TwoShorts = short __attribute__((vector_size(4)));
}  // namespace tilewright::emu

#define TILEWRIGHT_EMU_CONVERT(result, name, parameters) \
  TILEWRIGHT_EMU_PLAIN static inline result __builtin_amdgcn_##name parameters

#if defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1201__)
#define TILEWRIGHT_EMU_F8(name, bf8)                                                                                  \
  TILEWRIGHT_EMU_CONVERT(int, cvt_pk_##name##_f32, (float a, float b, int old, bool high)) {                          \
    return static_cast<int>(                                                                                          \
        tilewright::emu::cvt_pk_f8_f32<tilewright::emu::kMatrixTarget, bf8>(a, b, static_cast<uint32_t>(old), high)); \
  }                                                                                                                   \
  TILEWRIGHT_EMU_CONVERT(float, cvt_f32_##name, (int word, int select)) {                                             \
    return tilewright::emu::cvt_f32_f8<tilewright::emu::kMatrixTarget, bf8>(static_cast<uint32_t>(word), select);     \
  }                                                                                                                   \
  TILEWRIGHT_EMU_CONVERT(tilewright::emu::TwoFloats, cvt_pk_f32_##name, (int word, bool high)) {                      \
    const int first = high ? 2 : 0;                                                                                   \
    return tilewright::emu::TwoFloats{__builtin_amdgcn_cvt_f32_##name(word, first),                                   \
                                      __builtin_amdgcn_cvt_f32_##name(word, first + 1)};                              \
  }
TILEWRIGHT_EMU_F8(fp8, false)
TILEWRIGHT_EMU_F8(bf8, true)
#undef TILEWRIGHT_EMU_F8
#endif

#if defined(__gfx950__)
TILEWRIGHT_EMU_CONVERT(unsigned, cvt_scalef32_pk_fp4_f32, (unsigned old, float a, float b, float scale, int select)) {
  return tilewright::emu::cvt_scalef32_pk_fp4_f32(old, a, b, scale, select);
}
TILEWRIGHT_EMU_CONVERT(tilewright::emu::TwoFloats, cvt_scalef32_pk_f32_fp4, (unsigned word, float scale, int select)) {
  return tilewright::emu::TwoFloats{tilewright::emu::cvt_scalef32_f32_fp4(word, scale, select, 0),
                                    tilewright::emu::cvt_scalef32_f32_fp4(word, scale, select, 1)};
}
#define TILEWRIGHT_EMU_SCALED_F8(name, bf8)                                                                           \
  TILEWRIGHT_EMU_CONVERT(tilewright::emu::TwoShorts, cvt_scalef32_pk_##name##_f32,                                    \
                         (tilewright::emu::TwoShorts old, float a, float b, float scale, bool high)) {                \
    return __builtin_bit_cast(tilewright::emu::TwoShorts, tilewright::emu::cvt_scalef32_pk_f8_f32<bf8>(               \
                                                              __builtin_bit_cast(uint32_t, old), a, b, scale, high)); \
  }                                                                                                                   \
  TILEWRIGHT_EMU_CONVERT(tilewright::emu::TwoFloats, cvt_scalef32_pk_f32_##name,                                      \
                         (unsigned word, float scale, bool high)) {                                                   \
    return tilewright::emu::TwoFloats{tilewright::emu::cvt_scalef32_f32_f8<bf8>(word, scale, high ? 2 : 0),           \
                                      tilewright::emu::cvt_scalef32_f32_f8<bf8>(word, scale, high ? 3 : 1)};          \
  }
TILEWRIGHT_EMU_SCALED_F8(fp8, false)
TILEWRIGHT_EMU_SCALED_F8(bf8, true)
#undef TILEWRIGHT_EMU_SCALED_F8
#endif
#undef TILEWRIGHT_EMU_CONVERT
