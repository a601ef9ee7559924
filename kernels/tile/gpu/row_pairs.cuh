// SPDX-License-Identifier: MIT
// Pairs of neighbours in a row: 8 of them as two pieces.
#pragma once

#include "tile/gpu/row.cuh"

namespace tilewright {

// Elements 2 n and 2 n + 1 of a row, for `count` n; zeros behind them.
template <DType kType, bool kWhole = false>
__device__ __forceinline__ void load_pairs(const char* row, DType dtype, long long n, int count, Piece& even,
                                           Piece& odd) {
  Piece half[2];
  const int low = kWhole ? count : 2 * count < kRowPiece ? 2 * count : kRowPiece;
  load_piece<kType, kWhole>(row, dtype, 2 * n, low, half[0]);
  load_piece<kType, kWhole>(row, dtype, 2 * n + kRowPiece, 2 * count - low, half[1]);
  for_elements([&](int i) {
    const Piece& from = half[i / (kRowPiece / 2)];
    even.v[i] = from.v[2 * i % kRowPiece], odd.v[i] = from.v[2 * i % kRowPiece + 1];
  });
}
template <DType kType>
__device__ __forceinline__ void store_pairs(char* row, DType dtype, long long n, int count, const Piece& even,
                                            const Piece& odd) {
  Piece half[2];
  for_elements([&](int i) {
    Piece& to = half[i / (kRowPiece / 2)];
    to.v[2 * i % kRowPiece] = even.v[i], to.v[2 * i % kRowPiece + 1] = odd.v[i];
  });
  const int low = 2 * count < kRowPiece ? 2 * count : kRowPiece;
  store_piece<kType>(row, dtype, 2 * n, low, half[0]);
  store_piece<kType>(row, dtype, 2 * n + kRowPiece, 2 * count - low, half[1]);
}

}  // namespace tilewright
