// SPDX-License-Identifier: MIT
// Values as elements of any output type, and what they are divided by before.
#pragma once

#include "tile/cpu/narrow_codes.hpp"
#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// IEEE's quotient (quantise.hpp), also of a negative zero. kBounded: the divisor was found from values that x is among, so no quotient is large.
template <bool kBounded = false>
TILEWRIGHT_INLINE F32x16 divided(F32x16 x, const Divisor& by) {
#if TILEWRIGHT_AVX2
  if (by.near_one) {
    const F32x16 first = x * F32x16::splat(by.reciprocal);
    const F32x16 too_much = fma_less(first, F32x16::splat(by.scale), x),
                 mended = fma_from(too_much, F32x16::splat(by.reciprocal), first);
    return kBounded ? mended : select_less(absolute(first), F32x16::splat(0x1p100f), mended, first);
  }
#endif
  return x / F32x16::splat(by.scale);
}

template <DType kOut>
TILEWRIGHT_INLINE void encode(char* to, F32x16 x) {
  if constexpr (is_quantised(kOut)) {
    store_codes<kOut>(to, narrow_codes<kOut>(x));
  } else {
    store_vec<kOut>(to, x);
  }
}
// The last elements of a row; of the 4-bit ones an odd one leaves the upper half of its byte zero.
template <DType kOut>
inline void encode_tail(char* to, F32x16 x, int count) {
  alignas(64) char buffer[64];
  encode<kOut>(buffer, x);
  const int bits = count * dtype_bits(kOut);
  if (bits % 8 != 0) buffer[bits / 8] &= 15;
  __builtin_memcpy(to, buffer, static_cast<unsigned>((bits + 7) / 8));
}

// Vectors of neighbours; whole aligned lines past the caches if `stream`. kNumbers: none is NaN.
template <DType kOut, bool kNumbers = false, int kCount>
TILEWRIGHT_INLINE void encode_many(char* to, const F32x16 (&x)[kCount], bool stream) {
#if TILEWRIGHT_AVX2
  // A line at a time: in parts, its way past the caches would be as many.
  constexpr int kLine = 32 / dtype_bits(kOut);
  if constexpr (kCount % kLine == 0) {
    unroll<kCount / kLine>([&](auto i) __attribute__((always_inline)) {
      store_line(to + i * 64, join_line<kOut, kNumbers>(x + i * kLine), stream);
    });
    return;
  }
#endif
  constexpr int kEach = 2 * dtype_bits(kOut);
  if (kCount * kEach % 64 != 0 || !stream) {
    unroll<kCount>([&](auto i) __attribute__((always_inline)) { encode<kOut>(to + i * kEach, x[i]); });
    return;
  }
  alignas(64) char lines[kCount * kEach];
  unroll<kCount>([&](auto i) __attribute__((always_inline)) { encode<kOut>(lines + i * kEach, x[i]); });
  unroll<kCount * kEach / 16>([&](auto i) __attribute__((always_inline)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_load_si128(reinterpret_cast<const __m128i*>(lines) + i));
  });
}

// `length` neighbours, each value by `value(piece)`; past the caches where lines are whole. kNumbers: none is NaN.
template <DType kOut, bool kNumbers = false, class Value>
TILEWRIGHT_INLINE void encode_values(char* row, long long length, bool past_caches, Value&& value) {
  constexpr int kCount = 32 / dtype_bits(kOut);  // vectors of a line
  const bool stream = past_caches && begins_line(row);
  long long n = 0;
  for (; n + kCount * kVec <= length; n += kCount * kVec) {
    F32x16 v[kCount];
    unroll<kCount>([&](auto i) __attribute__((always_inline)) { v[i] = value(RowPiece<true>{n + i * kVec, kVec}); });
    encode_many<kOut, kNumbers>(row + n * dtype_bits(kOut) / 8, v, stream);
  }
  for (; n + kVec <= length; n += kVec) encode<kOut>(row + n * dtype_bits(kOut) / 8, value(RowPiece<true>{n, kVec}));
  if (n == length) return;
  const int count = static_cast<int>(length - n);
  encode_tail<kOut>(row + n * dtype_bits(kOut) / 8, value(RowPiece<false>{n, count}), count);
}
// All of a row.
template <DType kOut, bool kNumbers = false, class Value>
TILEWRIGHT_INLINE void encode_row(const RowArgs& args, char* row, Value&& value) {
  encode_values<kOut, kNumbers>(row, args.n, args.stream, value);
}

// Writes the scale of a group, and returns it.
TILEWRIGHT_INLINE float store_scale(const QuantisedScales& scales, DType out, long long at, float most) {
  if (scales.dtype == DType::kE8M0) {
    const e8m0 code = power_scale_for(most, out, scales.rounding);
    static_cast<e8m0*>(scales.data)[at] = code;
    return widen(code);
  }
  if (scales.dtype == DType::kF8E4M3) {
    const e4m3 code = multiple_scale_for(most, out, of_tensor(scales));
    static_cast<e4m3*>(scales.data)[at] = code;
    return multiple_divisor(code, of_tensor(scales));
  }
  const float scale = scale_for(most, out);
  __builtin_memcpy(static_cast<float*>(scales.data) + at, &scale, 4);
  return scale;
}

// What is done to quotients before they become codes, of the elements from n on: nothing.
struct KeepQuotients {
  static constexpr bool kKeeps = true;
  TILEWRIGHT_INLINE F32x16 operator()(F32x16 quotients, long long) const { return quotients; }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
