// SPDX-License-Identifier: MIT
// Pieces of 16 bytes, as many beside each other as a vector holds, of elements of 1, 2 or 4 bytes: transposes of squares are made of them.
#pragma once

#include "tile/cpu/lines.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kPieceBytes = 16;

#if TILEWRIGHT_AVX512

struct Pieces {
  static constexpr int kCount = 4;
  __m512i v;

  // Those at `from` and so many bytes further on, aligned.
  static TILEWRIGHT_INLINE Pieces gather(const char* from, long long step) {
    const auto piece = [&](int i) { return _mm_load_si128(reinterpret_cast<const __m128i*>(from + i * step)); };
    // Loads that keep the other quarters need no permutation.
    __m512i v = _mm512_maskz_broadcast_i32x4(0x000F, piece(0));
    v = _mm512_mask_broadcast_i32x4(v, 0x00F0, piece(1));
    v = _mm512_mask_broadcast_i32x4(v, 0x0F00, piece(2));
    return {_mm512_mask_broadcast_i32x4(v, 0xF000, piece(3))};
  }
  TILEWRIGHT_INLINE void store(char* to) const { _mm512_store_si512(to, v); }
};
// Of each two pieces the elements of their lower halves by turns; of their upper halves.
template <int kBytes>
TILEWRIGHT_INLINE Pieces low_pairs(Pieces a, Pieces b) {
  if constexpr (kBytes == 1) return {_mm512_unpacklo_epi8(a.v, b.v)};
  if constexpr (kBytes == 2) return {_mm512_unpacklo_epi16(a.v, b.v)};
  if constexpr (kBytes == 4) return {_mm512_maskz_unpacklo_epi32(0xFFFF, a.v, b.v)};
}
template <int kBytes>
TILEWRIGHT_INLINE Pieces high_pairs(Pieces a, Pieces b) {
  if constexpr (kBytes == 1) return {_mm512_unpackhi_epi8(a.v, b.v)};
  if constexpr (kBytes == 2) return {_mm512_unpackhi_epi16(a.v, b.v)};
  if constexpr (kBytes == 4) return {_mm512_maskz_unpackhi_epi32(0xFFFF, a.v, b.v)};
}
// A line past the caches, to where one begins; stream_fence() when all is done.
TILEWRIGHT_INLINE void stream_bytes(char* to, const char* line) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(line));
}

#elif TILEWRIGHT_AVX2

struct Pieces {
  static constexpr int kCount = 2;
  __m256i v;

  static TILEWRIGHT_INLINE Pieces gather(const char* from, long long step) {
    const auto piece = [&](int i) { return _mm_load_si128(reinterpret_cast<const __m128i*>(from + i * step)); };
    return {_mm256_inserti128_si256(_mm256_castsi128_si256(piece(0)), piece(1), 1)};
  }
  TILEWRIGHT_INLINE void store(char* to) const { _mm256_store_si256(reinterpret_cast<__m256i*>(to), v); }
};
template <int kBytes>
TILEWRIGHT_INLINE Pieces low_pairs(Pieces a, Pieces b) {
  if constexpr (kBytes == 1) return {_mm256_unpacklo_epi8(a.v, b.v)};
  if constexpr (kBytes == 2) return {_mm256_unpacklo_epi16(a.v, b.v)};
  if constexpr (kBytes == 4) return {_mm256_unpacklo_epi32(a.v, b.v)};
}
template <int kBytes>
TILEWRIGHT_INLINE Pieces high_pairs(Pieces a, Pieces b) {
  if constexpr (kBytes == 1) return {_mm256_unpackhi_epi8(a.v, b.v)};
  if constexpr (kBytes == 2) return {_mm256_unpackhi_epi16(a.v, b.v)};
  if constexpr (kBytes == 4) return {_mm256_unpackhi_epi32(a.v, b.v)};
}
TILEWRIGHT_INLINE void stream_bytes(char* to, const char* line) {
  for (int i = 0; i < kLineBytes; i += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + i)));
  }
}

#else

struct Pieces {
  static constexpr int kCount = 1;
  __m128i v;

  static TILEWRIGHT_INLINE Pieces gather(const char* from, long long) {
    return {_mm_load_si128(reinterpret_cast<const __m128i*>(from))};
  }
  TILEWRIGHT_INLINE void store(char* to) const { _mm_store_si128(reinterpret_cast<__m128i*>(to), v); }
};
template <int kBytes>
TILEWRIGHT_INLINE Pieces low_pairs(Pieces a, Pieces b) {
  if constexpr (kBytes == 1) return {_mm_unpacklo_epi8(a.v, b.v)};
  if constexpr (kBytes == 2) return {_mm_unpacklo_epi16(a.v, b.v)};
  if constexpr (kBytes == 4) return {_mm_unpacklo_epi32(a.v, b.v)};
}
template <int kBytes>
TILEWRIGHT_INLINE Pieces high_pairs(Pieces a, Pieces b) {
  if constexpr (kBytes == 1) return {_mm_unpackhi_epi8(a.v, b.v)};
  if constexpr (kBytes == 2) return {_mm_unpackhi_epi16(a.v, b.v)};
  if constexpr (kBytes == 4) return {_mm_unpackhi_epi32(a.v, b.v)};
}
TILEWRIGHT_INLINE void stream_bytes(char* to, const char* line) {
  for (int i = 0; i < kLineBytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + i)));
  }
}

#endif

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
