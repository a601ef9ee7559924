// SPDX-License-Identifier: MIT
// Pairs of a row that turn: 8 of them as two pieces, and their angles.
#pragma once

#include "tile/gpu/row_input.cuh"

namespace tilewright {

// Two pieces of neighbours as the first and the second of each pair, and back.
__device__ __forceinline__ void part_pairs(Piece& p, Piece& q) {
  Piece even, odd;
  for_elements([&](int i) {
    const Piece& from = i < kRowPiece / 2 ? p : q;
    even.v[i] = from.v[2 * i % kRowPiece], odd.v[i] = from.v[2 * i % kRowPiece + 1];
  });
  p = even, q = odd;
}
__device__ __forceinline__ void join_pairs(Piece& p, Piece& q) {
  Piece low, high;
  for_elements([&](int i) {
    Piece& to = i < kRowPiece / 2 ? low : high;
    to.v[2 * i % kRowPiece] = p.v[i], to.v[2 * i % kRowPiece + 1] = q.v[i];
  });
  p = low, q = high;
}

// Elements 2 n and 2 n + 1 of a row, for `count` n; zeros behind them.
template <DType kType, bool kWhole = false>
__device__ __forceinline__ void load_pairs(const char* row, DType dtype, long long n, int count, Piece& even,
                                           Piece& odd) {
  const int low = kWhole ? count : 2 * count < kRowPiece ? 2 * count : kRowPiece;
  load_piece<kType, kWhole>(row, dtype, 2 * n, low, even);
  load_piece<kType, kWhole>(row, dtype, 2 * n + kRowPiece, 2 * count - low, odd);
  part_pairs(even, odd);
}
template <DType kType>
__device__ __forceinline__ void store_pairs(char* row, DType dtype, long long n, int count, Piece even, Piece odd) {
  join_pairs(even, odd);
  const int low = 2 * count < kRowPiece ? 2 * count : kRowPiece;
  store_piece<kType>(row, dtype, 2 * n, low, even);
  store_piece<kType>(row, dtype, 2 * n + kRowPiece, 2 * count - low, odd);
}

// Entries of one of the tables for `count` pairs from n on. angles_of(axis): what turns a token by its position along that axis.
template <DType kTable, bool kWhole, class AnglesOf>
__device__ __forceinline__ void load_angles(const RowRotation& r, bool sine, long long n, int count,
                                            const AnglesOf& angles_of, Piece& to) {
  for_elements([&](int i) { to.v[i] = 0; });
#pragma unroll 1
  for (int axis = 0; axis < r.axes; ++axis) {
    const unsigned mine = axis_bits(r, axis, n, kRowPiece);
    if ((mine & 0xFFu) == 0) continue;
    const RowAngles angles = angles_of(axis);
    Piece entries;
    load_piece<kTable, kWhole>(sine ? angles.sine : angles.cosine, r.table, n, count, entries);
    const float factor = sine ? angles.sign : angles.known;
    for_elements([&](int i) { to.v[i] = (mine >> i & 1) != 0 ? __fmul_rn(entries.v[i], factor) : to.v[i]; });
  }
}

// Entries of both tables for eight pairs from n on as they lie, where the first axis' are there already: those of the others in their
// places. Positions beyond the tables are NaN in them, and no longer a factor of all.
template <DType kTable, class AnglesOf>
__device__ __forceinline__ void mix_angles(const RowRotation& r, int n, const AnglesOf& angles_of, RowAngles& first,
                                           PieceWords<kTable>& cosine, PieceWords<kTable>& sine) {
  cosine.make_nan_unless(first.known == first.known);
#pragma unroll 1
  for (int axis = 1; axis < r.axes; ++axis) {
    const unsigned mine = section_bits(r.section[axis], n, kRowPiece);
    if (mine == 0) continue;
    const RowAngles angles = angles_of(axis);
    const int column = n * dtype_bits(kTable) / 8;
    PieceWords<kTable> entries;
    entries.load(angles.cosine + column);
    entries.make_nan_unless(angles.known == angles.known);
    cosine.take(entries, mine);
    entries.load(angles.sine + column);
    sine.take(entries, mine);
  }
  first.known = 1, first.sign = r.inverse ? -1.0f : 1.0f;
}

}  // namespace tilewright
