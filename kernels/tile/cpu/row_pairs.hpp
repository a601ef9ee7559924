// SPDX-License-Identifier: MIT
// Pairs of neighbours in a row: 16 of them as two vectors.
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Elements 2 n and 2 n + 1 of a row, for the n of a piece; `row` points to its first element.
template <DType kType, bool kWhole>
TILEWRIGHT_INLINE void load_pairs(const char* row, DType dtype, RowPiece<kWhole> at, F32x16& even, F32x16& odd) {
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
  float pairs[2 * kVec], values[2][kVec];
  even.store(values[0]);
  odd.store(values[1]);
  for (int i = 0; i < kVec; ++i) pairs[2 * i] = values[0][i], pairs[2 * i + 1] = values[1][i];
  const int low = 2 * at.count < kVec ? 2 * at.count : kVec, high = 2 * at.count - low;
  store_piece<kType>(row, dtype, RowPiece<kWhole>{2 * at.n, low}, F32x16::load(pairs));
  if (high > 0) store_piece<kType>(row, dtype, RowPiece<kWhole>{2 * at.n + kVec, high}, F32x16::load(pairs + kVec));
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
