// SPDX-License-Identifier: MIT
// transpose_cpu: tiles of whole cache lines on both sides, each of them read and written once. For its config's elements, or any.
#pragma once

#include "tile/cpu/lines.hpp"
#include "tile/cpu/pieces.hpp"
#include "tile/cpu/share.hpp"
#include "tile/cpu/vec_io.hpp"
#include "transpose/transpose_args.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Squares of rows of 16 bytes, one below the other: each round puts elements beside those of the row half of a square below.
template <int kBytes>
TILEWRIGHT_INLINE void transpose_squares(const char* from, char* to, long long step) {
  constexpr int kRows = kPieceBytes / kBytes;
  Pieces row[kRows], next[kRows];
  for (int i = 0; i < kRows; ++i) row[i] = Pieces::gather(from + i * kLineBytes, kRows * kLineBytes);
  for (int round = 1; round < kRows; round *= 2) {
    for (int i = 0; i < kRows / 2; ++i) {
      next[2 * i] = low_pairs<kBytes>(row[i], row[i + kRows / 2]);
      next[2 * i + 1] = high_pairs<kBytes>(row[i], row[i + kRows / 2]);
    }
    for (int i = 0; i < kRows; ++i) row[i] = next[i];
  }
  for (int i = 0; i < kRows; ++i) row[i].store(to + i * step);
}

// Tiles of large matrices are 256 rows high (128 of 32 bits) and four lines wide, others one line high and eight wide. Rows of large matrices
// are on pages of their own on both sides: of a row of the output as much is written at a time as there are rows, and of a row of x the next
// tile reads what follows.
constexpr int transpose_tall(int bytes) { return bytes == 1 ? 4 : 8; }  // lines of the output
// So many rows ahead lines are asked for: of each row few are read at a time.
inline constexpr int kTransposeAhead = 8;

// `kTall` lines of the output high.
template <int kBytes, int kTall>
struct TransposeLines {
  static constexpr int kWide = kTall > 1 ? 4 : 8;
  static constexpr int kSide = kLineBytes / kBytes, kColumns = kWide * kSide;
  static constexpr int kMostRows = kTall * kSide;
  static constexpr int kPitch = kTall * kLineBytes;          // of rows of `out`
  static constexpr int kSquare = kPieceBytes / kBytes;       // rows of a square
  static constexpr int kSquares = Pieces::kCount * kSquare;  // and of those that are turned together
  static constexpr bool kAhead = kTall > 1 || kBytes > 1;    // low tiles of bytes are slower so

  alignas(64) char in[kWide][kMostRows * kLineBytes];
  alignas(64) char out[kSide * kPitch];

  // Up to so many of a line's elements.
  static TILEWRIGHT_INLINE void copy_line(char* to, const char* from, long long elements) {
    if (elements >= kSide) {
      __builtin_memcpy(to, from, kLineBytes);
    } else if (elements > 0) {
      __builtin_memcpy(to, from, static_cast<unsigned long>(elements * kBytes));
    }
  }
  static TILEWRIGHT_INLINE void take_line(char* to, const char* from, long long elements) {
    if (elements < kSide) __builtin_memset(to, 0, kLineBytes);
    copy_line(to, from, elements);
  }

  // [rows, columns] of x to `in`, column of lines by column; meanwhile lines of the rows behind them, and of the tile `next`, come.
  TILEWRIGHT_INLINE void read(const TransposeTile& tile, int rows, int columns, long long row_bytes, const char* next) {
    for (int row = 0; row < rows; ++row) {
      const char* const from = tile.x + row * row_bytes;
      const int ahead = row + kTransposeAhead;
      const char* const soon = ahead < rows ? tile.x + ahead * row_bytes : next + (ahead - rows) * row_bytes;
      for (int wide = 0; wide * kSide < columns; ++wide) {
        if constexpr (kAhead) __builtin_prefetch(soon + wide * kLineBytes);
        take_line(in[wide] + row * kLineBytes, from + wide * kLineBytes, columns - wide * kSide);
      }
    }
    // Squares are whole: what is no element of x is turned, too.
    for (int row = rows; row % kSquares != 0; ++row) {
      for (int wide = 0; wide * kSide < columns; ++wide) {
        __builtin_memset(in[wide] + row * kLineBytes, 0, kLineBytes);
      }
    }
  }

  // So many columns of a column of lines of `in` to `out` [columns, rows].
  TILEWRIGHT_INLINE void turn(int wide, int columns, int rows) {
    for (int row = 0; row < rows; row += kSquares) {
      for (int column = 0; column < columns; column += kSquare) {
        transpose_squares<kBytes>(in[wide] + row * kLineBytes + column * kBytes, out + column * kPitch + row * kBytes,
                                  kPitch);
      }
    }
  }

  // `out` to so many columns of x, which are rows of the output; whole lines past the caches where it streams.
  TILEWRIGHT_INLINE void write(char* to, int columns, int rows, long long row_bytes, bool streams) {
    const int bytes = rows * kBytes;
    for (int column = 0; column < columns; ++column, to += row_bytes) {
      const char* const from = out + column * kPitch;
      int done = 0;
      if (streams) {
        done = bytes_to_line(to);
        if (done > bytes) done = bytes;
        __builtin_memcpy(to, from, static_cast<unsigned long>(done));
        for (; done + kLineBytes <= bytes; done += kLineBytes) stream_bytes(to + done, from + done);
      }
      for (; done < bytes; done += kLineBytes) copy_line(to + done, from + done, (bytes - done) / kBytes);
    }
  }
};

// Tiles that go past the caches follow each other along rows of x, of which lines come together; others along rows of the output.
template <int kBytes, int kTall, bool kStreams>
void transpose_tiles_of(const TransposeArgs& args, unsigned unit, unsigned units) {
  using Lines = TransposeLines<kBytes, kTall>;
  constexpr int kSide = Lines::kSide, kColumns = Lines::kColumns, kRows = Lines::kMostRows;
  const long long row_x = args.row_x * kBytes, row_out = args.row_out * kBytes;
  const auto tile_at = [&](long long index) {
    return kStreams ? transpose_tile_along_rows(args, index, kRows, kColumns)
                    : transpose_tile(args, index, kRows, kColumns);
  };

  Lines lines;
  const long long tiles = transpose_tiles(args, kRows, kColumns), last = share_edge(tiles, unit + 1, units);
  for (long long index = share_edge(tiles, unit, units); index < last; ++index) {
    const TransposeTile tile = tile_at(index);
    const int rows = tile.rows < kRows ? static_cast<int>(tile.rows) : kRows;
    const int columns = tile.columns < kColumns ? static_cast<int>(tile.columns) : kColumns;
    lines.read(tile, rows, columns, row_x, tile_at(index + 1 < last ? index + 1 : index).x);
    for (int wide = 0; wide * kSide < columns; ++wide) {
      const int some = columns - wide * kSide < kSide ? columns - wide * kSide : kSide;
      lines.turn(wide, some, rows);
      lines.write(tile.out + wide * kSide * row_out, some, rows, row_out, kStreams);
    }
  }
  if (kStreams) stream_fence();
}

template <int kBytes>
void transpose_lines(const TransposeArgs& args, unsigned unit, unsigned units) {
  if (args.batch[0] * args.batch[1] * args.batch[2] * args.m * args.n * kBytes <= kCachedOutputBytes) {
    transpose_tiles_of<kBytes, 1, false>(args, unit, units);
  } else {
    transpose_tiles_of<kBytes, transpose_tall(kBytes), true>(args, unit, units);
  }
}

template <TransposeConfig kConfig>
void transpose_cpu(const TransposeArgs& args, unsigned unit, unsigned units) {
  if constexpr (kConfig.bytes != 0) {
    transpose_lines<kConfig.bytes>(args, unit, units);
  } else if (args.bytes == 4) {
    transpose_lines<4>(args, unit, units);
  } else if (args.bytes == 2) {
    transpose_lines<2>(args, unit, units);
  } else {
    transpose_lines<1>(args, unit, units);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
