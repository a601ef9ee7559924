// SPDX-License-Identifier: MIT
// transpose_cpu: tiles whose rows are cache lines on both sides, each of them read and written once. For its config's elements, or any.
#pragma once

#include <emmintrin.h>

#include "tile/cpu/lines.hpp"
#include "tile/cpu/share.hpp"
#include "tile/cpu/vec.hpp"
#include "transpose/transpose_args.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <int kBytes>
TILEWRIGHT_INLINE __m128i low_pairs(__m128i a, __m128i b) {
  return kBytes == 1 ? _mm_unpacklo_epi8(a, b) : kBytes == 2 ? _mm_unpacklo_epi16(a, b) : _mm_unpacklo_epi32(a, b);
}
template <int kBytes>
TILEWRIGHT_INLINE __m128i high_pairs(__m128i a, __m128i b) {
  return kBytes == 1 ? _mm_unpackhi_epi8(a, b) : kBytes == 2 ? _mm_unpackhi_epi16(a, b) : _mm_unpackhi_epi32(a, b);
}

// A square of rows of 16 bytes: each round puts elements beside those of the row half of the square below.
template <int kBytes>
TILEWRIGHT_INLINE void transpose_square(const char* from, char* to) {
  constexpr int kRows = 16 / kBytes;
  __m128i row[kRows], next[kRows];
  for (int i = 0; i < kRows; ++i) row[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i * kLineBytes));
  for (int round = 1; round < kRows; round *= 2) {
    for (int i = 0; i < kRows / 2; ++i) {
      next[2 * i] = low_pairs<kBytes>(row[i], row[i + kRows / 2]);
      next[2 * i + 1] = high_pairs<kBytes>(row[i], row[i + kRows / 2]);
    }
    for (int i = 0; i < kRows; ++i) row[i] = next[i];
  }
  for (int i = 0; i < kRows; ++i) _mm_store_si128(reinterpret_cast<__m128i*>(to + i * kLineBytes), row[i]);
}

// An aligned line past the caches.
TILEWRIGHT_INLINE void stream_bytes(char* to, const char* line) {
#if TILEWRIGHT_AVX512
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(line));
#else
  for (int i = 0; i < kLineBytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_load_si128(reinterpret_cast<const __m128i*>(line + i)));
  }
#endif
}

// A tile is as many rows as a line has elements, and eight lines wide: of a row of x, which may be alone on its page, more is read than
// one. Whole lines of the output go past the caches where they are aligned and many, so that nothing is read to be overwritten.
inline constexpr int kTransposeWide = 8;

template <int kBytes>
void transpose_lines(const TransposeArgs& args, unsigned unit, unsigned units) {
  constexpr int kSide = kLineBytes / kBytes, kRows = 16 / kBytes, kColumns = kTransposeWide * kSide;
  alignas(64) char in[kTransposeWide][kSide * kLineBytes] = {}, out[kSide * kLineBytes];
  const long long tiles = transpose_tiles(args, kSide, kColumns);
  const bool many = args.batch[0] * args.batch[1] * args.batch[2] * args.m * args.n * kBytes > kCachedOutputBytes;
  const bool streams = many && args.row_out * kBytes % kLineBytes == 0;
  const auto copy_line = [](char* to, const char* from, long long elements) {
    if (elements >= kSide) {
      __builtin_memcpy(to, from, kLineBytes);
    } else if (elements > 0) {
      __builtin_memcpy(to, from, static_cast<unsigned long>(elements * kBytes));
    }
  };
  const long long last = share_edge(tiles, unit + 1, units);
  for (long long index = share_edge(tiles, unit, units); index < last; ++index) {
    const TransposeTile tile = transpose_tile(args, index, kSide, kColumns);
    const int rows = tile.rows < kSide ? static_cast<int>(tile.rows) : kSide;
    for (int row = 0; row < rows; ++row) {
      const char* const from = tile.x + row * args.row_x * kBytes;
      for (int wide = 0; wide < kTransposeWide; ++wide) {
        copy_line(in[wide] + row * kLineBytes, from + wide * kLineBytes, tile.columns - wide * kSide);
      }
    }
    for (int wide = 0; wide < kTransposeWide && wide * kSide < tile.columns; ++wide) {
      for (int row = 0; row < kSide; row += kRows) {
        for (int column = 0; column < kSide; column += kRows) {
          transpose_square<kBytes>(in[wide] + row * kLineBytes + column * kBytes,
                                   out + column * kLineBytes + row * kBytes);
        }
      }
      const long long columns = tile.columns - wide * kSide;
      char* to = tile.out + wide * kSide * args.row_out * kBytes;
      const bool whole = streams && rows == kSide && reinterpret_cast<unsigned long long>(to) % kLineBytes == 0;
      for (int column = 0; column < (columns < kSide ? columns : kSide); ++column, to += args.row_out * kBytes) {
        const char* const line = out + column * kLineBytes;
        if (!whole) {
          copy_line(to, line, rows);
          continue;
        }
        stream_bytes(to, line);
      }
    }
  }
  if (streams) _mm_sfence();
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
