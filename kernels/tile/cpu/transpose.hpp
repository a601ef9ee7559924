// SPDX-License-Identifier: MIT
// Transposes 16 x 16 blocks of 32-bit units: what turns rows along k into lines of 16 columns.
#pragma once

#include "tile/cpu/vec.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

#if TILEWRIGHT_AVX512

// rows[i] lane j becomes rows[j] lane i.
TILEWRIGHT_INLINE void transpose_16x16(I32x16 (&rows)[16]) {
  // 32-bit pairs, 64-bit pairs, then 128-bit quarters twice.
  __m512i t[16];
  unroll<8>([&](auto i) __attribute__((always_inline)) {
    t[2 * i] = _mm512_maskz_unpacklo_epi32(kAllLanes, rows[2 * i].v, rows[2 * i + 1].v);
    t[2 * i + 1] = _mm512_maskz_unpackhi_epi32(kAllLanes, rows[2 * i].v, rows[2 * i + 1].v);
  });
  __m512i u[16];  // u[4 g + c]: columns c, c + 4, c + 8, c + 12 of rows 4 g .. 4 g + 3
  unroll<4>([&](auto g) __attribute__((always_inline)) {
    u[4 * g] = _mm512_maskz_unpacklo_epi64(0xFF, t[4 * g], t[4 * g + 2]);
    u[4 * g + 1] = _mm512_maskz_unpackhi_epi64(0xFF, t[4 * g], t[4 * g + 2]);
    u[4 * g + 2] = _mm512_maskz_unpacklo_epi64(0xFF, t[4 * g + 1], t[4 * g + 3]);
    u[4 * g + 3] = _mm512_maskz_unpackhi_epi64(0xFF, t[4 * g + 1], t[4 * g + 3]);
  });
  unroll<4>([&](auto c) __attribute__((always_inline)) {
    const __m512i a = _mm512_maskz_shuffle_i32x4(kAllLanes, u[c], u[4 + c], 0x88);       // columns c, c + 8; rows 0..7
    const __m512i b = _mm512_maskz_shuffle_i32x4(kAllLanes, u[c], u[4 + c], 0xDD);       // columns c + 4, c + 12
    const __m512i d = _mm512_maskz_shuffle_i32x4(kAllLanes, u[8 + c], u[12 + c], 0x88);  // rows 8..15
    const __m512i e = _mm512_maskz_shuffle_i32x4(kAllLanes, u[8 + c], u[12 + c], 0xDD);
    rows[c].v = _mm512_maskz_shuffle_i32x4(kAllLanes, a, d, 0x88);
    rows[c + 8].v = _mm512_maskz_shuffle_i32x4(kAllLanes, a, d, 0xDD);
    rows[c + 4].v = _mm512_maskz_shuffle_i32x4(kAllLanes, b, e, 0x88);
    rows[c + 12].v = _mm512_maskz_shuffle_i32x4(kAllLanes, b, e, 0xDD);
  });
}

#else

inline void transpose_16x16(I32x16 (&rows)[16]) {
  alignas(64) float from[16][16], to[16][16];
  for (int i = 0; i < 16; ++i) rows[i].store(from[i]);
  // 4 x 4 blocks: SSE2 everywhere.
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 16; j += 4) {
      __m128 r0 = _mm_load_ps(&from[i][j]), r1 = _mm_load_ps(&from[i + 1][j]);
      __m128 r2 = _mm_load_ps(&from[i + 2][j]), r3 = _mm_load_ps(&from[i + 3][j]);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      _mm_store_ps(&to[j][i], r0);
      _mm_store_ps(&to[j + 1][i], r1);
      _mm_store_ps(&to[j + 2][i], r2);
      _mm_store_ps(&to[j + 3][i], r3);
    }
  }
  for (int i = 0; i < 16; ++i) rows[i] = I32x16::load(to[i]);
}

#endif

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
