// SPDX-License-Identifier: MIT
// Between storage types and vectors of f32: exact widening, narrowing with one rounding to nearest even, tails.
#pragma once

#include "tile/common/dtype.hpp"
#include "tile/common/numeric.hpp"
#include "tile/cpu/lines.hpp"
#include "tile/cpu/vec.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <DType kType>
inline constexpr int kBytes = dtype_bits(kType) / 8;

// An element type as a value: with_dtype(dtype, [](auto type) { load_vec<type.value>(...) }).
template <DType kType>
struct TypeTag {
  static constexpr DType value = kType;
};

TILEWRIGHT_INLINE F32x16 widen_bf16(I32x16 codes) { return as_float(shift_left<16>(codes)); }

// Rounded to the upper 16 bits of each lane; the lower ones mean nothing. Integer arithmetic, because vcvtneps2bf16 flushes subnormals.
// No lane is NaN:
TILEWRIGHT_INLINE I32x16 round_number_to_bf16(F32x16 x) {
  const I32x16 bits = as_int(x), half = bits + I32x16::splat(0x7FFF);
#if TILEWRIGHT_AVX512
  const __mmask16 odd = _mm512_test_epi32_mask(bits.v, _mm512_set1_epi32(0x10000));
  return {_mm512_mask_add_epi32(half.v, odd, half.v, _mm512_set1_epi32(1))};
#else
  return half + (shift_right<16>(bits) & I32x16::splat(1));
#endif
}
TILEWRIGHT_INLINE I32x16 round_to_bf16(F32x16 x) {
  const I32x16 bits = as_int(x), rounded = round_number_to_bf16(x);
#if TILEWRIGHT_AVX512
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  return {_mm512_mask_or_epi32(rounded.v, nan, bits.v, _mm512_set1_epi32(0x00400000))};
#else
  return as_int(select_nan(x, as_float(bits | I32x16::splat(0x00400000)), as_float(rounded)));
#endif
}
// bf16 codes in the low halves.
TILEWRIGHT_INLINE I32x16 narrow_bf16(F32x16 x) { return shift_right<16>(round_to_bf16(x)); }

#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512
// 16 lanes below 2^16 as words, in order: packing stays within 16 bytes.
TILEWRIGHT_INLINE __m256i join_words(I32x16 x) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(x.lo.v, x.hi.v), 0xD8);
}
#endif

// 16 consecutive elements as f32.
template <DType kType>
TILEWRIGHT_INLINE F32x16 load_vec(const void* p) {
  if constexpr (kType == DType::kF32) return F32x16::load(p);
  if constexpr (kType == DType::kF16) return F32x16::load_f16(p);
  if constexpr (kType == DType::kBf16) return widen_bf16(I32x16::widen_u16(p));
  if constexpr (kType == DType::kI8) return to_float(I32x16::widen_i8(p));
}

#if TILEWRIGHT_AVX512_BF16
// The lanes that vcvtneps2bf16 would take for zero. They are rare enough for a branch.
TILEWRIGHT_INLINE __mmask16 subnormals(F32x16 x) { return _mm512_fpclass_ps_mask(x.v, 0x20); }
#endif

// kNormal: no lane is subnormal.
template <DType kType, bool kNormal = false>
TILEWRIGHT_INLINE void store_vec(void* p, F32x16 x) {
  if constexpr (kType == DType::kF32) x.store(p);
  if constexpr (kType == DType::kF16) x.store_f16(p);
  if constexpr (kType == DType::kBf16) {
#if TILEWRIGHT_AVX512_BF16
    if (kNormal || __builtin_expect(subnormals(x) == 0, 1)) {
      _mm256_storeu_si256(static_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x.v));
      return;
    }
#endif
#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512
    _mm256_storeu_si256(static_cast<__m256i*>(p), join_words(narrow_bf16(x)));
#else
    narrow_bf16(x).narrow_16(p);
#endif
  }
}

// Elements that fill one cache line: 16 f32, or 32 of 16 bits.
template <DType kType>
inline constexpr int kLineVectors = 4 / kBytes<kType>;

// One whole aligned line past the caches: nothing is read first and nothing evicted. stream_fence() when all is done.
// Where kStreamsLines does not hold these are ordinary stores.
inline constexpr bool kStreamsLines = TILEWRIGHT_AVX512 != 0;
template <DType kType, bool kNormal = false>
TILEWRIGHT_INLINE void stream_line(void* p, const F32x16 (&x)[kLineVectors<kType>]) {
#if TILEWRIGHT_AVX512
  if constexpr (kType == DType::kF32) {
    _mm512_stream_ps(static_cast<float*>(p), x[0].v);
  } else {
#if TILEWRIGHT_AVX512_BF16
    if constexpr (kType == DType::kBf16) {
      if (kNormal || __builtin_expect((subnormals(x[0]) | subnormals(x[1])) == 0, 1)) {
        return _mm512_stream_si512(static_cast<__m512i*>(p), (__m512i)_mm512_cvtne2ps_pbh(x[1].v, x[0].v));
      }
    }
#endif
    __m256i half[2];
    for (int i = 0; i < 2; ++i) {
      constexpr int kRound = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      half[i] = kType == DType::kF16 ? _mm512_maskz_cvtps_ph(kAllLanes, x[i].v, kRound)
                                     : _mm512_maskz_cvtepi32_epi16(kAllLanes, narrow_bf16(x[i]).v);
    }
    const __m512i low = _mm512_castsi256_si512(half[0]);
    _mm512_stream_si512(static_cast<__m512i*>(p), _mm512_maskz_inserti64x4(0xFF, low, half[1], 1));
  }
#else
  for (int i = 0; i < kLineVectors<kType>; ++i)
    store_vec<kType, kNormal>(static_cast<char*>(p) + i * 16 * kBytes<kType>, x[i]);
#endif
}
TILEWRIGHT_INLINE void stream_fence() { _mm_sfence(); }

// The first `count` < 16 elements, zero behind them. Nothing past them is touched.
template <DType kType>
inline F32x16 load_tail(const void* p, int count) {
  alignas(64) unsigned char buffer[64] = {};
  __builtin_memcpy(buffer, p, static_cast<unsigned>(count) * kBytes<kType>);
  return load_vec<kType>(buffer);
}

template <DType kType>
inline void store_tail(void* p, F32x16 x, int count) {
  alignas(64) unsigned char buffer[64];
  store_vec<kType>(buffer, x);
  __builtin_memcpy(p, buffer, static_cast<unsigned>(count) * kBytes<kType>);
}

// One element, at any address.
template <class T>
TILEWRIGHT_INLINE T read_as(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(T));
  return value;
}
template <DType kType>
TILEWRIGHT_INLINE float load_one(const void* p) {
  if constexpr (kType == DType::kF32) return read_as<float>(p);
  if constexpr (kType == DType::kF16) return widen(read_as<f16>(p));
  if constexpr (kType == DType::kBf16) return widen(read_as<bf16>(p));
  if constexpr (kType == DType::kI8) return static_cast<float>(read_as<signed char>(p));
  if constexpr (kType == DType::kF8E4M3) return widen(read_as<e4m3>(p));
  if constexpr (kType == DType::kF8E5M2) return widen(read_as<e5m2>(p));
  if constexpr (kType == DType::kF8E4M3Fnuz) return widen(read_as<e4m3fnuz>(p));
  if constexpr (kType == DType::kF8E5M2Fnuz) return widen(read_as<e5m2fnuz>(p));
}

template <DType kType>
TILEWRIGHT_INLINE void store_one(void* p, float x) {
  if constexpr (kType == DType::kF32) __builtin_memcpy(p, &x, 4);
  if constexpr (kType == DType::kF16) {
    const f16 code = narrow<f16>(x);
    __builtin_memcpy(p, &code, 2);
  }
  if constexpr (kType == DType::kBf16) {
    const bf16 code = narrow<bf16>(x);
    __builtin_memcpy(p, &code, 2);
  }
}

TILEWRIGHT_INLINE const char* offset_bytes(const void* p, long long bytes) {
  return static_cast<const char*>(p) + bytes;
}
TILEWRIGHT_INLINE char* offset_bytes(void* p, long long bytes) { return static_cast<char*>(p) + bytes; }

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
