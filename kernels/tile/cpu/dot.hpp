// SPDX-License-Identifier: MIT
// Dot-product instructions on 16 lanes, and their twins for units compiled without them.
#pragma once

#include "tile/cpu/vec.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Subnormal f32 to zero of the same sign.
TILEWRIGHT_INLINE F32x16 flush(F32x16 x) {
  return select_less(absolute(x), F32x16::splat(0x1p-126f),
                     as_float(as_int(x) & I32x16::splat(static_cast<int>(0x80000000u))), x);
}

// vdpbf16ps: acc + a1 b1 + a0 b0 in pairs of bf16; two roundings, subnormals are zero on both sides.
TILEWRIGHT_INLINE F32x16 dot_bf16_twin(F32x16 acc, I32x16 a, I32x16 b) {
  const I32x16 high = I32x16::splat(static_cast<int>(0xFFFF0000u));
  const F32x16 a0 = flush(as_float(shift_left<16>(a))), a1 = flush(as_float(a & high));
  const F32x16 b0 = flush(as_float(shift_left<16>(b))), b1 = flush(as_float(b & high));
  return flush(fma(a0, b0, flush(fma(a1, b1, flush(acc)))));
}
TILEWRIGHT_INLINE F32x16 dot_bf16(F32x16 acc, I32x16 a, I32x16 b) {
#if TILEWRIGHT_AVX512_BF16
  return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
#else
  return dot_bf16_twin(acc, a, b);
#endif
}

// vpdpbusd: acc + the sum of four products of u8 (a) and i8 (b), modulo 2^32.
inline I32x16 dot_u8_i8_twin(I32x16 acc, I32x16 a, I32x16 b) {
  unsigned sum[16];
  unsigned char left[64];
  signed char right[64];
  acc.store(sum);
  a.store(left);
  b.store(right);
  for (int i = 0; i < 64; ++i) sum[i / 4] += static_cast<unsigned>(left[i] * right[i]);
  return I32x16::load(sum);
}
TILEWRIGHT_INLINE I32x16 dot_u8_i8(I32x16 acc, I32x16 a, I32x16 b) {
#if TILEWRIGHT_AVX512_VNNI
  return {_mm512_dpbusd_epi32(acc.v, a.v, b.v)};
#else
  return dot_u8_i8_twin(acc, a, b);
#endif
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
