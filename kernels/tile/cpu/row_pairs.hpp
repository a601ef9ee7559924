// SPDX-License-Identifier: MIT
// Pairs of a row that turn: 16 of them as two vectors, and their angles.
#pragma once

#include "tile/cpu/row_encode.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Of the lanes of two vectors those of even or of odd numbers; and both alternately, the first or the second half.
#if TILEWRIGHT_AVX512
template <int kOdd, int... kLane>
TILEWRIGHT_INLINE F32x16 every_other(F32x16 a, F32x16 b, detail::IndexList<kLane...>) {
  return {__builtin_shufflevector(a.v, b.v, (2 * kLane + kOdd)...)};
}
template <int kOdd>
TILEWRIGHT_INLINE F32x16 every_other(F32x16 a, F32x16 b) {
  return every_other<kOdd>(a, b, detail::MakeIndexList<kVec>::List{});
}
template <int kHalf, int... kLane>
TILEWRIGHT_INLINE F32x16 alternate(F32x16 a, F32x16 b, detail::IndexList<kLane...>) {
  return {__builtin_shufflevector(a.v, b.v, (kHalf * kVec / 2 + kLane / 2 + kLane % 2 * kVec)...)};
}
template <int kHalf>
TILEWRIGHT_INLINE F32x16 alternate(F32x16 a, F32x16 b) {
  return alternate<kHalf>(a, b, detail::MakeIndexList<kVec>::List{});
}
#elif TILEWRIGHT_AVX2
template <int kOdd>
TILEWRIGHT_INLINE F32x8 every_other(F32x8 a, F32x8 b) {
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, kOdd ? 0xDD : 0x88));  // within 16 bytes
  return {_mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xD8))};
}
template <int kHalf>
TILEWRIGHT_INLINE F32x8 alternate(F32x8 a, F32x8 b) {
  return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v), kHalf ? 0x31 : 0x20)};
}
template <int kOdd>
TILEWRIGHT_INLINE F32x16 every_other(F32x16 a, F32x16 b) {
  return {every_other<kOdd>(a.lo, a.hi), every_other<kOdd>(b.lo, b.hi)};
}
template <int kHalf>
TILEWRIGHT_INLINE F32x16 alternate(F32x16 a, F32x16 b) {
  const F32x8 first = kHalf ? a.hi : a.lo, second = kHalf ? b.hi : b.lo;
  return {alternate<0>(first, second), alternate<1>(first, second)};
}
#else
template <int kOdd>
TILEWRIGHT_INLINE F32x16 every_other(F32x16 a, F32x16 b) {
  float both[2 * kVec], picked[kVec];
  a.store(both), b.store(both + kVec);
  for (int i = 0; i < kVec; ++i) picked[i] = both[2 * i + kOdd];
  return F32x16::load(picked);
}
template <int kHalf>
TILEWRIGHT_INLINE F32x16 alternate(F32x16 a, F32x16 b) {
  float both[2 * kVec], picked[kVec];
  a.store(both), b.store(both + kVec);
  for (int i = 0; i < kVec; ++i) picked[i] = both[kHalf * kVec / 2 + i / 2 + i % 2 * kVec];
  return F32x16::load(picked);
}
#endif

#if TILEWRIGHT_AVX2
// 32 words, those of the first half and those of the second alternately.
TILEWRIGHT_INLINE Line alternate_words(const Line& line) {
#if TILEWRIGHT_AVX512
  alignas(64) static constexpr auto kOrder = [] {
    struct Words {
      unsigned short word[32];
    } order{};
    for (int i = 0; i < 32; ++i) order.word[i] = static_cast<unsigned short>(i / 2 + i % 2 * 16);
    return order;
  }();
  return _mm512_maskz_permutexvar_epi16(~__mmask32{0}, _mm512_load_si512(kOrder.word), line);
#else
  const __m256i low = _mm256_unpacklo_epi16(line.half[0], line.half[1]);
  const __m256i high = _mm256_unpackhi_epi16(line.half[0], line.half[1]);
  return {{_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)}};
#endif
}
#endif

// Whether 16 elements of a type are best taken with those of even numbers in front of the others: so halves of words are widened and
// narrowed without a permutation. What they meet lane by lane comes in the same order.
template <DType kType>
inline constexpr bool kTakenApart = TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512 && kType == DType::kBf16;
template <DType kType>
TILEWRIGHT_INLINE F32x16 take_apart(F32x16 x) {
#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512
  if constexpr (kTakenApart<kType>) return {every_other<0>(x.lo, x.hi), every_other<1>(x.lo, x.hi)};
#endif
  return x;
}
template <DType kType>
TILEWRIGHT_INLINE F32x16 put_together(F32x16 x) {
#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512
  if constexpr (kTakenApart<kType>) return {alternate<0>(x.lo, x.hi), alternate<1>(x.lo, x.hi)};
#endif
  return x;
}
template <DType kType>
TILEWRIGHT_INLINE F32x16 load_apart(const void* p) {
#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512
  if constexpr (kTakenApart<kType>) {
    const I32x8 words = I32x8::load(p);
    return {as_float(shift_left<16>(words)), as_float(words & I32x8::splat(static_cast<int>(0xFFFF0000u)))};
  }
#endif
  return load_vec<kType>(p);
}
// Vectors of neighbours that were taken apart as kType's, as encode_many().
template <DType kType, DType kOut, int kCount>
TILEWRIGHT_INLINE void encode_apart(char* to, F32x16 (&x)[kCount], bool stream) {
#if TILEWRIGHT_AVX2 && !TILEWRIGHT_AVX512
  if constexpr (kTakenApart<kType> && kOut == kType && kCount == 2) {
    if (__builtin_expect(!has_nan<2>(x), 1)) {
      const auto words = [](F32x16 v) __attribute__((always_inline)) {
        const I32x16 rounded = round_number_to_bf16(v);
        return _mm256_blend_epi16(shift_right<16>(rounded.lo).v, rounded.hi.v, 0xAA);
      };
      return store_line(to, {{words(x[0]), words(x[1])}}, stream);
    }
  }
#endif
  for (F32x16& v : x) v = put_together<kType>(v);
  encode_many<kOut>(to, x, stream);
}

// 32 neighbours, whole, as those of even and of odd numbers, and back: past the caches if `stream`, which whole lines can go.
template <DType kType>
TILEWRIGHT_INLINE void split_pairs(const char* from, F32x16& even, F32x16& odd) {
  if constexpr (kType == DType::kF32) {
    const F32x16 low = F32x16::load(from), high = F32x16::load(from + 4 * kVec);
    even = every_other<0>(low, high), odd = every_other<1>(low, high);
    return;
  }
  const I32x16 both = I32x16::load(from);
  if constexpr (kType == DType::kBf16) {
    even = as_float(shift_left<16>(both)), odd = as_float(both & I32x16::splat(static_cast<int>(0xFFFF0000u)));
  } else if constexpr (kType == DType::kF16) {
    alignas(32) unsigned short half[2][kVec];
    both.narrow_16(half[0]), shift_right<16>(both).narrow_16(half[1]);
    even = F32x16::load_f16(half[0]), odd = F32x16::load_f16(half[1]);
  }
}
template <DType kType>
TILEWRIGHT_INLINE void join_pairs(char* to, F32x16 even, F32x16 odd, bool stream) {
  if constexpr (kType == DType::kF32) {
    const F32x16 both[2] = {alternate<0>(even, odd), alternate<1>(even, odd)};
    encode_many<kType>(to, both, stream);
  } else {
#if TILEWRIGHT_AVX2
    const F32x16 both[2] = {even, odd};
    store_line(to, alternate_words(join_line<kType, false>(both)), stream);
#else
    static_assert(dtype_bits(kType) == 32, "of 16 bits where there are whole lines");
#endif
  }
}

// Elements 2 n and 2 n + 1 of a row, for the n of a piece; `row` points to its first element.
template <DType kType, bool kWhole>
TILEWRIGHT_INLINE void load_pairs(const char* row, DType dtype, RowPiece<kWhole> at, F32x16& even, F32x16& odd) {
  if constexpr (kWhole && kType != DType::kNone) {
    return split_pairs<kType>(row + 2 * at.n * dtype_bits(kType) / 8, even, odd);
  }
  float pairs[2 * kVec], values[2][kVec];
  const int low = 2 * at.count < kVec ? 2 * at.count : kVec, high = 2 * at.count - low;
  load_piece<kType>(row, dtype, RowPiece<kWhole>{2 * at.n, low}).store(pairs);
  F32x16 rest = F32x16::splat(0);
  if (high > 0) rest = load_piece<kType>(row, dtype, RowPiece<kWhole>{2 * at.n + kVec, high});
  rest.store(pairs + kVec);
  for (int i = 0; i < kVec; ++i) values[0][i] = pairs[2 * i], values[1][i] = pairs[2 * i + 1];
  even = F32x16::load(values[0]);
  odd = F32x16::load(values[1]);
}

template <DType kType, bool kWhole>
TILEWRIGHT_INLINE void store_pairs(char* row, DType dtype, RowPiece<kWhole> at, F32x16 even, F32x16 odd,
                                   bool stream = false) {
  if constexpr (kWhole && kType != DType::kNone) {
    return join_pairs<kType>(row + 2 * at.n * dtype_bits(kType) / 8, even, odd, stream);
  }
  float pairs[2 * kVec], values[2][kVec];
  even.store(values[0]);
  odd.store(values[1]);
  for (int i = 0; i < kVec; ++i) pairs[2 * i] = values[0][i], pairs[2 * i + 1] = values[1][i];
  const int low = 2 * at.count < kVec ? 2 * at.count : kVec, high = 2 * at.count - low;
  store_piece<kType>(row, dtype, RowPiece<kWhole>{2 * at.n, low}, F32x16::load(pairs));
  if (high > 0) store_piece<kType>(row, dtype, RowPiece<kWhole>{2 * at.n + kVec, high}, F32x16::load(pairs + kVec));
}

// Cosines and sines of pairs. `of_axis`: what turns a token, for each axis of its positions.
struct PairAngles {
  F32x16 cosine, sine;
};
template <bool kWhole>
TILEWRIGHT_INLINE PairAngles load_angles(const RowRotation& r, const RowAngles (&of_axis)[kRopeAxes],
                                         RowPiece<kWhole> at) {
  const auto load = [&](const RowAngles& angles) __attribute__((always_inline)) {
    return PairAngles{load_column({angles.cosine, r.table}, at) * F32x16::splat(angles.known),
                      load_column({angles.sine, r.table}, at) * F32x16::splat(angles.sign)};
  };
  PairAngles found = load(of_axis[0]);
  if (r.axes <= 1) return found;
  float cosine[kVec], sine[kVec], other_cosine[kVec], other_sine[kVec];
  found.cosine.store(cosine), found.sine.store(sine);
  for (int axis = 1; axis < r.axes; ++axis) {
    const unsigned mine = axis_bits(r, axis, at.n, at.count);
    if (mine == 0) continue;
    const PairAngles other = load(of_axis[axis]);
    other.cosine.store(other_cosine), other.sine.store(other_sine);
    for (int i = 0; i < kVec; ++i) {
      cosine[i] = mine >> i & 1 ? other_cosine[i] : cosine[i];
      sine[i] = mine >> i & 1 ? other_sine[i] : sine[i];
    }
  }
  return {F32x16::load(cosine), F32x16::load(sine)};
}

// What turns all heads of a token, as floats.
struct TokenAngles {
  static constexpr long long kMostDims = 2048;
  alignas(64) float cosine[kMostDims / 2 + kVec];
  alignas(64) float sine[kMostDims / 2 + kVec];

  // kType: in the order of its elements.
  template <DType kType>
  TILEWRIGHT_INLINE void keep(const RowRotation& r, const RowAngles (&of_axis)[kRopeAxes]) {
    for_pieces(r.dims / 2, [&](auto at) {
      const PairAngles angles = load_angles(r, of_axis, at);
      take_apart<kType>(angles.cosine).store(cosine + at.n), take_apart<kType>(angles.sine).store(sine + at.n);
    });
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE PairAngles operator()(RowPiece<kWhole> at) const {
    return {F32x16::load(cosine + at.n), F32x16::load(sine + at.n)};
  }
};

TILEWRIGHT_INLINE void turn(const PairAngles& by, F32x16& a, F32x16& b) {
  const F32x16 first = fma_less(a, by.cosine, b * by.sine);
  b = fma(b, by.cosine, a * by.sine);
  a = first;
}
// Whether what turns is a run of pairs half of it apart, each half whole lines of kOut.
template <DType kOut>
TILEWRIGHT_INLINE bool turns_lines(const RowRotation& r) {
  return !r.interleaved && !r.parts && r.dims / 2 % (kVec * 32 / dtype_bits(kOut)) == 0;
}
// Such a run, of value(piece) of a row, a line of each half at a time: store(n, its vectors from element n on).
template <DType kOut, class Value, class Angles, class Store>
TILEWRIGHT_INLINE void turn_lines(const RowRotation& r, Value&& value, Angles&& angles, Store&& store) {
  constexpr int kCount = 32 / dtype_bits(kOut);
  const long long half = r.dims / 2;
  for (long long n = 0; n < half; n += kCount * kVec) {
    F32x16 first[kCount], second[kCount];
    unroll<kCount>([&](auto i) __attribute__((always_inline)) {
      const RowPiece<true> piece{n + i * kVec, kVec};
      first[i] = value(piece), second[i] = value(RowPiece<true>{half + piece.n, kVec});
      turn(angles(piece), first[i], second[i]);
    });
    store(n, first), store(half + n, second);
  }
}
// Pairs of a row turned by what angles(piece) gives for 16 of them. kNone: `dtype` tells the type. Neighbours go past the caches if
// `stream`: the row begins a line.
template <DType kType, class Angles>
TILEWRIGHT_INLINE void turn_runs(const RowRotation& r, const char* from, char* to, DType dtype, bool stream,
                                 Angles&& angles) {
  const long long bytes = dtype_bits(kType == DType::kNone ? dtype : kType) / 8;
  if (r.interleaved) {
    return for_pieces(r.dims / 2, [&](auto piece) __attribute__((always_inline)) {
      F32x16 a, b;
      load_pairs<kType>(from, dtype, piece, a, b);
      turn(angles(piece), a, b);
      store_pairs<kType>(to, dtype, piece, a, b, stream);
    });
  }
  for (int i = 0; i < turned_runs(r); ++i) {
    const RowTurn run = turned_run(r, i);
    const char* const in = from + 2 * run.begin * bytes;
    char* const out = to + 2 * run.begin * bytes;
    for_pieces(run.pairs, [&](auto piece) __attribute__((always_inline)) {
      F32x16 a = load_piece<kType>(in, dtype, piece), b = load_piece<kType>(in + run.pairs * bytes, dtype, piece);
      auto column = piece;
      column.n += run.begin;
      turn(angles(column), a, b);
      store_piece<kType>(out, dtype, piece, a);
      store_piece<kType>(out + run.pairs * bytes, dtype, piece, b);
    });
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
