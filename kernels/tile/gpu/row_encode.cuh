// SPDX-License-Identifier: MIT
// Values divided by a scale, and their codes. One source for NVIDIA and AMD.
#pragma once

#include "tile/gpu/narrow_f8.hpp"
#include "tile/gpu/pack_bytes.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

// is_near_one (quantise.hpp), in few instructions.
__device__ __forceinline__ bool near_one(float x) { return fabsf(x) >= 0x1p-100f && fabsf(x) <= 0x1p100f; }
__device__ __forceinline__ Divisor divisor(float scale) { return {scale, reciprocal_near_one(scale), near_one(scale)}; }
// Of one that is near one.
__device__ __forceinline__ Divisor doubled(const Divisor& by) {
  return {__fmul_rn(by.scale, 2), __fmul_rn(by.reciprocal, 0.5f), true};
}
// IEEE's quotient by a scale that is near one, also of a negative zero.
__device__ __forceinline__ float corrected_quotient(float x, const Divisor& by) {
  const float first = __fmul_rn(x, by.reciprocal), too_much = __fmaf_rn(first, by.scale, -x);
  return __fmaf_rn(too_much, -by.reciprocal, first);
}
// kBounded: where the scale is near one, none is larger than the type's largest value.
template <bool kBounded>
__device__ __forceinline__ void divide(Piece& p, const Divisor& by) {
  if (by.near_one) {
    return for_elements([&](int i) {
      const float quotient = corrected_quotient(p.v[i], by);
      p.v[i] = kBounded || fabsf(quotient) < 0x1p100f ? quotient : __fmul_rn(p.v[i], by.reciprocal);
    });
  }
  for_elements([&](int i) { p.v[i] = p.v[i] / by.scale; });
}

// To the nearest integer by a sum whose last place is 1, ties to even; NaN is 0.
__device__ __forceinline__ unsigned narrow_i8(float x) {
  const float moved = __fadd_rn(at_most(at_least(x, -128), 127), 12582912.0f);  // 1.5 * 2^23
  return x == x ? __builtin_bit_cast(unsigned, moved) & 255 : 0;
}
// Codes of 8 bits, the first four and the others.
__device__ __forceinline__ void narrow_codes(DType dtype, const Piece& p, unsigned (&word)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float a = p.v[4 * i], b = p.v[4 * i + 1], c = p.v[4 * i + 2], d = p.v[4 * i + 3];
    switch (dtype) {
      case DType::kF8E4M3: word[i] = narrow_f8x4<e4m3::Format>(a, b, c, d); break;
      case DType::kF8E5M2: word[i] = narrow_f8x4<e5m2::Format>(a, b, c, d); break;
      case DType::kF8E4M3Fnuz: word[i] = narrow_f8x4<e4m3fnuz::Format>(a, b, c, d); break;
      case DType::kF8E5M2Fnuz: word[i] = narrow_f8x4<e5m2fnuz::Format>(a, b, c, d); break;
      default: word[i] = narrow_i8(a) | narrow_i8(b) << 8 | narrow_i8(c) << 16 | narrow_i8(d) << 24; break;
    }
  }
}
// Eight of 4 bits.
__device__ __forceinline__ unsigned narrow_nibbles(const Piece& p) {
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < kRowPiece; ++i) word |= narrow_many<e2m1x2::Format>(p.v[i]) << (4 * i);
  return word;
}

template <bool kWhole>
__device__ __forceinline__ void store_nibbles(char* to, int count, unsigned word) {
  if (at_once<kWhole>(to, count, 4)) {
    *reinterpret_cast<unsigned*>(to) = word;
    return;
  }
  if constexpr (kWhole) return;
  // The last of an odd number leaves the upper half of its byte zero.
  const unsigned mine = count < kRowPiece ? word & ((1u << (4 * count)) - 1) : word;
#pragma unroll
  for (int i = 0; i < kRowPiece; i += 2) {
    if (i < count) to[i / 2] = static_cast<char>(mine >> (4 * i));
  }
}
template <bool kWhole>
__device__ __forceinline__ void store_codes(char* to, int count, const unsigned (&word)[2]) {
  if (at_once<kWhole>(to, count, 8)) return store_vector2(reinterpret_cast<unsigned*>(to), word[0], word[1]);
  if constexpr (kWhole) return;
  const int there = anew(count);
  for_elements([&](int i) {
    if (i < there) to[i] = static_cast<char>(word[i / 4] >> (8 * (i % 4)));
  });
}
template <DType kType, bool kWhole>
__device__ __forceinline__ void encode_piece(char* row, DType dtype, long long n, int count, const Piece& from) {
  const DType type = kType == DType::kNone ? dtype : kType;
  if (!is_quantised(type)) return store_piece<kType, kWhole>(row, dtype, n, count, from);
  if (type == DType::kF4E2M1) return store_nibbles<kWhole>(row + n / 2, count, narrow_nibbles(from));
  unsigned word[2];
  narrow_codes(type, from, word);
  store_codes<kWhole>(row + n, count, word);
}

// What NaN becomes, which has no sign here: the largest code of 4 bits, no integer.
template <DType kType>
inline constexpr float kQuotientOfNaN = kType == DType::kF4E2M1 ? quantised_limit(kType)
                                        : kType == DType::kI8   ? 0
                                                                : __builtin_bit_cast(float, 0x7FC00000u);
// What few scales that were found from values need. Where one is not near one, powers of two that change no quotient bring both there. What
// is divided by infinity or NaN is 0 or NaN. Subnormal scales are rounded so far that integers are cut, as is what is beyond a multiple
// that is as large as there is one.
template <DType kType>
__device__ __forceinline__ void prepare_quotients(Piece& p, Divisor& by) {
  if (by.near_one) return;
  const bool finite = by.scale <= 0x1.FFFFFEp127f, known = by.scale == by.scale;
  const float factor = !finite ? 0 : by.scale < 1 ? 0x1p64f : 0x1p-64f;
  by = divisor(finite ? __fmul_rn(by.scale, factor) : 1);
  for_elements([&](int i) {
    float x = __fmul_rn(p.v[i], factor);
    if constexpr (kType == DType::kI8) x = at_most(at_least(x, __fmul_rn(by.scale, -128)), __fmul_rn(by.scale, 127));
    if constexpr (kType == DType::kF4E2M1) x = at_most(at_least(x, __fmul_rn(by.scale, -8)), __fmul_rn(by.scale, 8));
    p.v[i] = known && x == x ? x : kQuotientOfNaN<kType>;
  });
}

// To the nearest integer, in the word's low bits: by a sum whose last place is 1.
inline constexpr float kUnitsPlace = 12582912.0f;  // 1.5 * 2^23
inline constexpr unsigned kUnitsPlaceBits = __builtin_bit_cast(unsigned, kUnitsPlace);
__device__ __forceinline__ unsigned integer_code(float x) {
  return __builtin_bit_cast(unsigned, __fadd_rn(x, kUnitsPlace));
}
// The same of the magnitude of 2 x in e2m1, whose codes rise by 4, 2 and 1 from 0 to 1 to 2 to 3; 7 at most. Of the three sums one at most is
// rounded, ties to even. Of numbers.
__device__ __forceinline__ unsigned nibble_code(float x) {
  const float half = fabsf(x);
  float code = __fmaf_rn(saturated_sum(half, 0), 4, kUnitsPlace);
  code = __fmaf_rn(saturated_sum(half, -1), 2, code);
  return __builtin_bit_cast(unsigned, __fadd_rn(saturated_sum(half, -2), code));
}
// Of values with their signs, over twice their scale: four codes, a byte each.
__device__ __forceinline__ unsigned nibble_codes(const Piece& p, const Divisor& twice, int first) {
  const auto each = [first](auto&& of, auto&& bytes) {
    return bytes(of(first), of(first + 1), of(first + 2), of(first + 3));
  };
  const unsigned codes = each([&](int i) { return nibble_code(corrected_quotient(p.v[i], twice)); }, low_bytes);
  const unsigned signs = each([&](int i) { return __builtin_bit_cast(unsigned, p.v[i]); }, high_bytes);
  return (codes & 0x07070707u) | (signs >> 4 & 0x08080808u);
}

// Codes of values divided by a scale that is near one and was found from them: integers have f32 scales, so no quotient is beyond their
// largest one by more than rounding takes back. Of 4 bits the first word has all.
template <DType kType>
__device__ __forceinline__ void quotient_codes(const Piece& p, const Divisor& by, unsigned (&word)[2]) {
  static_assert(is_quantised(kType));
  if constexpr (kType == DType::kF4E2M1) {
    const Divisor twice = doubled(by);
    const unsigned first = nibble_codes(p, twice, 0), second = nibble_codes(p, twice, 4);
    word[0] = even_bytes(first | first >> 4, second | second >> 4);
    return;
  }
  Piece quotients;
  for_elements([&](int i) { quotients.v[i] = corrected_quotient(p.v[i], by); });
  if constexpr (kType == DType::kI8) {
    const auto code = [&](int i) { return integer_code(quotients.v[i]); };
    word[0] = low_bytes(code(0), code(1), code(2), code(3)), word[1] = low_bytes(code(4), code(5), code(6), code(7));
  } else {
    narrow_codes(kType, quotients, word);
  }
}
template <DType kType, bool kWhole>
__device__ __forceinline__ void store_quotients(char* row, long long n, int count, const unsigned (&word)[2]) {
  if constexpr (kType == DType::kF4E2M1) return store_nibbles<kWhole>(row + n / 2, count, word[0]);
  store_codes<kWhole>(row + n, count, word);
}
// The same over any scale.
template <DType kType, bool kWhole>
__device__ __forceinline__ void encode_quotients(char* row, long long n, int count, Piece& p, Divisor by) {
  prepare_quotients<kType>(p, by);
  unsigned word[2];
  quotient_codes<kType>(p, by, word);
  store_quotients<kType, kWhole>(row, n, count, word);
}
// Of two whole pieces side by side, by one store where it is aligned.
template <DType kType>
__device__ __forceinline__ void encode_pair(char* row, int n, int count, int more, Piece& p, Piece& q, Divisor by) {
  if (!by.near_one) {
    Divisor first = by;
    prepare_quotients<kType>(p, first);
    prepare_quotients<kType>(q, by);
  }
  unsigned first[2], second[2];
  quotient_codes<kType>(p, by, first);
  quotient_codes<kType>(q, by, second);
  auto* const to = reinterpret_cast<unsigned*>(row + n * dtype_bits(kType) / 8);
  if (more > 0 && (reinterpret_cast<unsigned long long>(to) & (2 * dtype_bits(kType) - 1)) == 0) {
    if constexpr (kType == DType::kF4E2M1) return store_vector2(to, first[0], second[0]);
    return store_vector4(to, Vector4<unsigned>{first[0], first[1], second[0], second[1]});
  }
  // As if they were others: else compilers make one set of narrow stores of both.
#pragma unroll
  for (int i = 0; i < 2; ++i) first[i] = renewed(first[i]), second[i] = renewed(second[i]);
  store_quotients<kType, true>(row, n, count, first);
  store_quotients<kType, true>(row, n + kRowPiece, more, second);
}

}  // namespace tilewright
