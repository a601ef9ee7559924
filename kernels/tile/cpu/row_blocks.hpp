// SPDX-License-Identifier: MIT
// Writes blocks of rows and columns that share a scale, which is found.
#pragma once

#include "tile/cpu/row_plain.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr int kBandBlocks = 8;  // that a row crosses at a time: what it reads there is long enough for memory

// A unit's share of the blocks, of values by `values(row)(piece)`; rounds(row) is as store_row's. Neighbours of the same rows are read
// together, and again for their codes: then caches have them.
template <RowCpuConfig kConfig, class Values, class Rounds>
TILEWRIGHT_INLINE void store_blocks(const RowArgs& args, unsigned unit, unsigned units, Values&& values,
                                    Rounds&& rounds) {
  const DType out = kConfig.x == DType::kNone ? args.out.dtype : kConfig.out;
  const long long across = scale_blocks(args.n), last = share_edge(row_blocks(args), unit + 1, units);
  int band = 0;
  for (long long which = share_edge(row_blocks(args), unit, units); which < last; which += band) {
    const RowBlock block = row_block(args, which);
    const long long together = across - which % across < last - which ? across - which % across : last - which;
    band = together < kBandBlocks ? static_cast<int>(together) : kBandBlocks;
    // use(row, block of the band, where it begins, where it ends, value(piece))
    const auto each = [&](auto&& use) __attribute__((always_inline)) {
      RowIndex at = block.first;
      for (int i = 0; i < block.rows; ++i, ++at.i[2]) {
        auto value = values(at);
        for (int b = 0; b < band; ++b) {
          const long long n = block.n + static_cast<long long>(b) * kScaleBlock, next = n + kScaleBlock;
          use(at, b, n, next < args.n ? next : args.n, value);
        }
      }
    };

    // The largest magnitude of each block, and its scale.
    constexpr bool kWords = HasWords<decltype(values(block.first))>;
    F32x16 most[kBandBlocks];
    [[maybe_unused]] LargestWord words[kBandBlocks];
    for (F32x16& one : most) one = F32x16::splat(0);
    each([&](const RowIndex&, int b, long long n, long long to, auto& value) __attribute__((always_inline)) {
      if constexpr (kWords) {
        if (to - n == kScaleBlock) return words[b].add(value.x + 2 * n, kScaleBlock);
      }
      F32x16 mine = most[b];
      for_pieces(to - n, [&](auto piece) __attribute__((always_inline)) {
        mine = larger_magnitude(mine, value(decltype(piece){n + piece.n, piece.count}));
      });
      most[b] = mine;
    });
    Divisor by[kBandBlocks];
    for (int b = 0; b < band; ++b) {
      const long long scale_at = block.scale_at + b * args.scale.stride_group;
      if constexpr (kWords) most[b] = larger_magnitude(most[b], F32x16::splat(words[b].template value<kConfig.x>()));
      by[b] = divisor_of(store_scale(args.scale, out, scale_at, largest_lane(most[b])));
    }

    each([&](const RowIndex& at, int b, long long n, long long to, auto& value) __attribute__((always_inline)) {
      char* const row = row_start(args.out, at);
      auto round = rounds(at);
      if constexpr (kConfig.x != DType::kNone) {
        // The next band, which the second level of cache has room for.
        const char* const next = row_start(args.x, at) + (n + band * kScaleBlock) * kBytes<kConfig.x>;
        for (int line = 0; line < kScaleBlock * kBytes<kConfig.x>; line += 64) __builtin_prefetch(next + line, 0, 2);
        if (to - n == kScaleBlock && by[b].near_one) {
          constexpr int kBits = dtype_bits(kConfig.out), kLine = 32 / kBits;  // vectors
          const bool stream = args.stream && begins_line(row);
          unroll<kScaleBlock / kVec / kLine>([&](auto line) __attribute__((always_inline)) {
            F32x16 v[kLine];
            unroll<kLine>([&](auto i) __attribute__((always_inline)) {
              const RowPiece<true> piece{n + (line * kLine + i) * kVec, kVec};
              v[i] = round(divided<true>(value(piece), by[b]), piece.n);
            });
            encode_many<kConfig.out, true>(row + (n + line * kLine * kVec) * kBits / 8, v, stream);
          });
          return;
        }
      }
      encode_pieces(row, out, n, to, by[b], value, round);
    });
  }
  if (args.stream) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
