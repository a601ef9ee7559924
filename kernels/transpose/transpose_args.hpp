// SPDX-License-Identifier: MIT
// What host and kernels of transpose share. Freestanding.
#pragma once

#include "tile/common/fields.hpp"
#include "tile/common/quotient.hpp"

namespace tilewright {

inline constexpr int kTransposeBatch = 3;  // dimensions that tell matrices apart

// [b0, b1, b2, m, n] to [b0, b1, b2, n, m]; elements of a row are neighbours on both sides. Strides in elements.
struct TransposeArgs {
  const void* x;
  void* out;
  long long batch[kTransposeBatch], stride_x[kTransposeBatch], stride_out[kTransposeBatch];
  long long m, n, row_x, row_out;
  long long grid;  // GPU: blocks
  int bytes;       // of an element
};

// What a kernel is compiled for: bytes of an element, 0 = told at run time.
struct TransposeConfig {
  static constexpr const char* kTypeName = "TransposeConfig";
  int bytes;

  bool operator==(const TransposeConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("bytes", self.bytes);
  }
};

// Tiles of so many rows and columns, in which a matrix is cut: number `index` of those of all matrices, those of the same columns one
// after another.
struct TransposeTile {
  const char* x;  // its first element
  char* out;
  long long rows, columns;  // of x from there on
};
constexpr long long transpose_tiles(const TransposeArgs& args, int rows, int columns) {
  const long long down = (args.m + rows - 1) / rows, right = (args.n + columns - 1) / columns;
  return args.batch[0] * args.batch[1] * args.batch[2] * down * right;
}
constexpr TransposeTile transpose_tile_at(const TransposeArgs& args, long long matrix, long long row,
                                          long long column) {
  const Quotient inner = divided_by(matrix, args.batch[2]), outer = divided_by(inner.whole, args.batch[1]);
  const auto offset = [&](const long long(&stride)[kTransposeBatch]) {
    return outer.whole * stride[0] + outer.rest * stride[1] + inner.rest * stride[2];
  };
  return {static_cast<const char*>(args.x) + (offset(args.stride_x) + row * args.row_x + column) * args.bytes,
          static_cast<char*>(args.out) + (offset(args.stride_out) + column * args.row_out + row) * args.bytes,
          args.m - row, args.n - column};
}
constexpr TransposeTile transpose_tile(const TransposeArgs& args, long long index, int rows, int columns) {
  const Quotient down = divided_by(index, (args.m + rows - 1) / rows);
  const Quotient right = divided_by(down.whole, (args.n + columns - 1) / columns);
  return transpose_tile_at(args, right.whole, down.rest * rows, right.rest * columns);
}
// The same, those of the same rows one after another.
constexpr TransposeTile transpose_tile_along_rows(const TransposeArgs& args, long long index, int rows, int columns) {
  const Quotient right = divided_by(index, (args.n + columns - 1) / columns);
  const Quotient down = divided_by(right.whole, (args.m + rows - 1) / rows);
  return transpose_tile_at(args, down.whole, down.rest * rows, right.rest * columns);
}

// GPUs: a tile is 8 pieces of 16 bytes wide and as high, of which a thread has one of as many rows; of bytes half of that, for which
// there are registers.
inline constexpr int kTransposePieces = 8;
constexpr int transpose_rows(int bytes) { return bytes == 1 ? 8 : 16 / bytes; }
constexpr int transpose_threads(int bytes) { return bytes == 1 ? 128 : 64; }
constexpr int transpose_side(int bytes) { return bytes == 0 ? 32 : kTransposePieces * 16 / bytes; }
constexpr int transpose_shared_bytes(int bytes) {
  const int side = transpose_side(bytes);
  return bytes == 0 ? side * (side + 1) * 4 : side * kTransposePieces * 16;
}

}  // namespace tilewright
