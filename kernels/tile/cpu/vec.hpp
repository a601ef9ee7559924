// SPDX-License-Identifier: MIT
// Vectors of 16 lanes, F32x16 and I32x16, whatever the target: one AVX-512 register, two AVX2 registers, or four SSE2
// registers. Kernels are written once, in terms of 16 lanes.
#pragma once

#include "tile/cpu/vec_avx2.hpp"
#include "tile/cpu/vec_avx512.hpp"
#include "tile/cpu/vec_sse2.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A vector of two halves, and every operation on both.
template <class Half>
struct IntPair {
  Half lo, hi;
  static constexpr int kHalf = Half::kLanes;
  static constexpr int kLanes = 2 * kHalf;
  static TILEWRIGHT_INLINE IntPair splat(int value) { return {Half::splat(value), Half::splat(value)}; }
  static TILEWRIGHT_INLINE IntPair load(const void* p) {
    return {Half::load(p), Half::load(static_cast<const char*>(p) + 4 * kHalf)};
  }
  static TILEWRIGHT_INLINE IntPair widen_u16(const void* p) {
    return {Half::widen_u16(p), Half::widen_u16(static_cast<const char*>(p) + 2 * kHalf)};
  }
  static TILEWRIGHT_INLINE IntPair widen_i8(const void* p) {
    return {Half::widen_i8(p), Half::widen_i8(static_cast<const char*>(p) + kHalf)};
  }
  static TILEWRIGHT_INLINE IntPair widen_i8_pairs(const void* p) {
    return {Half::widen_i8_pairs(p), Half::widen_i8_pairs(static_cast<const char*>(p) + 2 * kHalf)};
  }
  TILEWRIGHT_INLINE void store(void* p) const {
    lo.store(p);
    hi.store(static_cast<char*>(p) + 4 * kHalf);
  }
  TILEWRIGHT_INLINE void narrow_16(void* p) const {
    lo.narrow_16(p);
    hi.narrow_16(static_cast<char*>(p) + 2 * kHalf);
  }
  friend TILEWRIGHT_INLINE IntPair operator+(IntPair a, IntPair b) { return {a.lo + b.lo, a.hi + b.hi}; }
  friend TILEWRIGHT_INLINE IntPair operator-(IntPair a, IntPair b) { return {a.lo - b.lo, a.hi - b.hi}; }
  friend TILEWRIGHT_INLINE IntPair operator&(IntPair a, IntPair b) { return {a.lo & b.lo, a.hi & b.hi}; }
  friend TILEWRIGHT_INLINE IntPair operator|(IntPair a, IntPair b) { return {a.lo | b.lo, a.hi | b.hi}; }
  friend TILEWRIGHT_INLINE IntPair operator^(IntPair a, IntPair b) { return {a.lo ^ b.lo, a.hi ^ b.hi}; }
};
template <int kBits, class Half>
TILEWRIGHT_INLINE IntPair<Half> shift_left(IntPair<Half> a) {
  return {shift_left<kBits>(a.lo), shift_left<kBits>(a.hi)};
}
template <int kBits, class Half>
TILEWRIGHT_INLINE IntPair<Half> shift_right(IntPair<Half> a) {
  return {shift_right<kBits>(a.lo), shift_right<kBits>(a.hi)};
}
template <int kBits, class Half>
TILEWRIGHT_INLINE IntPair<Half> shift_right_signed(IntPair<Half> a) {
  return {shift_right_signed<kBits>(a.lo), shift_right_signed<kBits>(a.hi)};
}
template <class Half>
TILEWRIGHT_INLINE IntPair<Half> multiply_pairs_i16(IntPair<Half> a, IntPair<Half> b) {
  return {multiply_pairs_i16(a.lo, b.lo), multiply_pairs_i16(a.hi, b.hi)};
}

template <class Half>
struct FloatPair {
  Half lo, hi;
  using Int = IntPair<typename Half::Int>;
  static constexpr int kHalf = Half::kLanes;
  static constexpr int kLanes = 2 * kHalf;
  static TILEWRIGHT_INLINE FloatPair splat(float value) { return {Half::splat(value), Half::splat(value)}; }
  static TILEWRIGHT_INLINE FloatPair load(const void* p) {
    return {Half::load(p), Half::load(static_cast<const char*>(p) + 4 * kHalf)};
  }
  static TILEWRIGHT_INLINE FloatPair load_f16(const void* p) {
    return {Half::load_f16(p), Half::load_f16(static_cast<const char*>(p) + 2 * kHalf)};
  }
  TILEWRIGHT_INLINE void store(void* p) const {
    lo.store(p);
    hi.store(static_cast<char*>(p) + 4 * kHalf);
  }
  TILEWRIGHT_INLINE void store_f16(void* p) const {
    lo.store_f16(p);
    hi.store_f16(static_cast<char*>(p) + 2 * kHalf);
  }
  friend TILEWRIGHT_INLINE FloatPair operator+(FloatPair a, FloatPair b) { return {a.lo + b.lo, a.hi + b.hi}; }
  friend TILEWRIGHT_INLINE FloatPair operator-(FloatPair a, FloatPair b) { return {a.lo - b.lo, a.hi - b.hi}; }
  friend TILEWRIGHT_INLINE FloatPair operator*(FloatPair a, FloatPair b) { return {a.lo * b.lo, a.hi * b.hi}; }
  friend TILEWRIGHT_INLINE FloatPair operator/(FloatPair a, FloatPair b) { return {a.lo / b.lo, a.hi / b.hi}; }
  friend TILEWRIGHT_INLINE FloatPair fma(FloatPair a, FloatPair b, FloatPair c) {
    return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair fma_less(FloatPair a, FloatPair b, FloatPair c) {  // a * b - c
    return {fma_less(a.lo, b.lo, c.lo), fma_less(a.hi, b.hi, c.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair fma_from(FloatPair a, FloatPair b, FloatPair c) {  // c - a * b
    return {fma_from(a.lo, b.lo, c.lo), fma_from(a.hi, b.hi, c.hi)};
  }
  // NaN in x stays; NaN in the bound is ignored.
  friend TILEWRIGHT_INLINE FloatPair at_least(FloatPair x, FloatPair bound) {
    return {at_least(x.lo, bound.lo), at_least(x.hi, bound.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair at_most(FloatPair x, FloatPair bound) {
    return {at_most(x.lo, bound.lo), at_most(x.hi, bound.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair select_less(FloatPair a, FloatPair b, FloatPair yes, FloatPair no) {
    return {select_less(a.lo, b.lo, yes.lo, no.lo), select_less(a.hi, b.hi, yes.hi, no.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair zero_if_less(FloatPair a, FloatPair b, FloatPair no) {
    return {zero_if_less(a.lo, b.lo, no.lo), zero_if_less(a.hi, b.hi, no.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair zero_unless_less(FloatPair a, FloatPair b, FloatPair yes) {
    return {zero_unless_less(a.lo, b.lo, yes.lo), zero_unless_less(a.hi, b.hi, yes.hi)};
  }
  friend TILEWRIGHT_INLINE FloatPair select_nan(FloatPair x, FloatPair yes, FloatPair no) {
    return {select_nan(x.lo, yes.lo, no.lo), select_nan(x.hi, yes.hi, no.hi)};
  }
  friend TILEWRIGHT_INLINE Int as_int(FloatPair a) { return {as_int(a.lo), as_int(a.hi)}; }
  // To nearest, ties to even.
  friend TILEWRIGHT_INLINE Int round_to_int(FloatPair a) { return {round_to_int(a.lo), round_to_int(a.hi)}; }
};

#if TILEWRIGHT_AVX512
// F32x16 and I32x16 stand in vec_avx512.hpp.
#elif TILEWRIGHT_AVX2
using I32x16 = IntPair<I32x8>;
using F32x16 = FloatPair<F32x8>;
TILEWRIGHT_INLINE F32x16 as_float(I32x16 a) { return {as_float(a.lo), as_float(a.hi)}; }
TILEWRIGHT_INLINE F32x16 to_float(I32x16 a) { return {to_float(a.lo), to_float(a.hi)}; }
#else
using I32x16 = IntPair<IntPair<I32x4>>;
using F32x16 = FloatPair<FloatPair<F32x4>>;
TILEWRIGHT_INLINE FloatPair<F32x4> as_float(IntPair<I32x4> a) { return {as_float(a.lo), as_float(a.hi)}; }
TILEWRIGHT_INLINE FloatPair<F32x4> to_float(IntPair<I32x4> a) { return {to_float(a.lo), to_float(a.hi)}; }
TILEWRIGHT_INLINE F32x16 as_float(I32x16 a) { return {as_float(a.lo), as_float(a.hi)}; }
TILEWRIGHT_INLINE F32x16 to_float(I32x16 a) { return {to_float(a.lo), to_float(a.hi)}; }
#endif

#if !TILEWRIGHT_AVX512
// To nearest, ties to even; |a| < 2^31.
TILEWRIGHT_INLINE F32x16 round_to_whole(F32x16 a) { return to_float(round_to_int(a)); }
// a 2^n for whole n in [-252, 254]. Two steps, because 2^n alone can overflow or be subnormal.
TILEWRIGHT_INLINE F32x16 scale_by_power(F32x16 a, F32x16 n) {
  const I32x16 whole = round_to_int(n), half = shift_right_signed<1>(whole), bias = I32x16::splat(127);
  return a * as_float(shift_left<23>(half + bias)) * as_float(shift_left<23>(whole - half + bias));
}
TILEWRIGHT_INLINE F32x16 reciprocal(F32x16 a) { return F32x16::splat(1) / a; }
#endif

inline constexpr int kVec = 16;

TILEWRIGHT_INLINE F32x16 absolute(F32x16 a) { return as_float(as_int(a) & I32x16::splat(0x7FFFFFFF)); }
// The magnitude of the first with the sign of the second.
TILEWRIGHT_INLINE F32x16 with_sign(F32x16 magnitude, F32x16 sign) {
  const I32x16 bit = I32x16::splat(static_cast<int>(0x80000000u));
  return as_float((as_int(magnitude) & I32x16::splat(0x7FFFFFFF)) | (as_int(sign) & bit));
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
