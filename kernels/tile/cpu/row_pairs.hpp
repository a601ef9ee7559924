// SPDX-License-Identifier: MIT
// Pairs of a row that turn: 16 of them as two vectors, and their angles.
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// 32 neighbours, whole, as those of even and of odd numbers, and back.
using PairLanes = float __attribute__((vector_size(4 * kVec)));
template <DType kType>
TILEWRIGHT_INLINE void split_pairs(const char* from, F32x16& even, F32x16& odd) {
  if constexpr (kType == DType::kF32) {
    PairLanes low, high;
    __builtin_memcpy(&low, from, sizeof(low));
    __builtin_memcpy(&high, from + sizeof(low), sizeof(high));
    const auto pick = [&]<int kFirst, int... kLane>(Index<kFirst>, detail::IndexList<kLane...>)
                          __attribute__((always_inline)) {
                            const PairLanes picked = __builtin_shufflevector(low, high, (2 * kLane + kFirst)...);
                            return __builtin_bit_cast(F32x16, picked);
                          };
    constexpr detail::MakeIndexList<kVec>::List kLanes{};
    even = pick(Index<0>{}, kLanes), odd = pick(Index<1>{}, kLanes);
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
TILEWRIGHT_INLINE void join_pairs(char* to, F32x16 even, F32x16 odd) {
  if constexpr (kType == DType::kF32) {
    const auto a = __builtin_bit_cast(PairLanes, even), b = __builtin_bit_cast(PairLanes, odd);
    const auto join = [&]<int kFirst, int... kLane>(Index<kFirst>, detail::IndexList<kLane...>)
                          __attribute__((always_inline)) {
                            return __builtin_shufflevector(a, b, (kFirst + kLane / 2 + kLane % 2 * kVec)...);
                          };
    constexpr detail::MakeIndexList<kVec>::List kLanes{};
    const PairLanes low = join(Index<0>{}, kLanes), high = join(Index<kVec / 2>{}, kLanes);
    __builtin_memcpy(to, &low, sizeof(low));
    __builtin_memcpy(to + sizeof(low), &high, sizeof(high));
  } else {
    alignas(32) unsigned short half[2][kVec];
    store_vec<kType>(half[0], even), store_vec<kType>(half[1], odd);
    (I32x16::widen_u16(half[0]) | shift_left<16>(I32x16::widen_u16(half[1]))).store(to);
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
TILEWRIGHT_INLINE void store_pairs(char* row, DType dtype, RowPiece<kWhole> at, F32x16 even, F32x16 odd) {
  if constexpr (kWhole && kType != DType::kNone) {
    return join_pairs<kType>(row + 2 * at.n * dtype_bits(kType) / 8, even, odd);
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

// Pairs of a row turned by what angles(piece) gives for 16 of them. kNone: `dtype` tells the type.
template <DType kType, class Angles>
TILEWRIGHT_INLINE void turn_runs(const RowRotation& r, const char* from, char* to, DType dtype, Angles&& angles) {
  const long long bytes = dtype_bits(kType == DType::kNone ? dtype : kType) / 8;
  for (int i = 0; i < turned_runs(r); ++i) {
    const RowTurn run = turned_run(r, i);
    const char* const in = from + 2 * run.begin * bytes;
    char* const out = to + 2 * run.begin * bytes;
    for_pieces(run.pairs, [&](auto piece) __attribute__((always_inline)) {
      F32x16 a, b;
      if (r.interleaved) {
        load_pairs<kType>(in, dtype, piece, a, b);
      } else {
        a = load_piece<kType>(in, dtype, piece), b = load_piece<kType>(in + run.pairs * bytes, dtype, piece);
      }
      auto column = piece;
      column.n += run.begin;
      const PairAngles by = angles(column);
      const F32x16 first = fma_less(a, by.cosine, b * by.sine);
      const F32x16 second = fma(b, by.cosine, a * by.sine);
      if (r.interleaved) return store_pairs<kType>(out, dtype, piece, first, second);
      store_piece<kType>(out, dtype, piece, first);
      store_piece<kType>(out + run.pairs * bytes, dtype, piece, second);
    });
  }
}
template <DType kType>
TILEWRIGHT_INLINE void turn_pairs(const RowRotation& r, const RowAngles (&of_axis)[kRopeAxes], const char* from,
                                  char* to, DType dtype) {
  turn_runs<kType>(r, from, to, dtype,
                   [&](auto pairs) __attribute__((always_inline)) { return load_angles(r, of_axis, pairs); });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
