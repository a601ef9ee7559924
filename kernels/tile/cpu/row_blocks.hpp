// SPDX-License-Identifier: MIT
// Writes blocks of rows and columns that share a scale, which is found.
#pragma once

#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A unit's share of the blocks, of values by `values(row)(piece)`; rounds(row) is as store_row's. A block is read twice: the second
// time caches have it.
template <RowCpuConfig kConfig, class Values, class Rounds>
TILEWRIGHT_INLINE void store_blocks(const RowArgs& args, unsigned unit, unsigned units, Values&& values,
                                    Rounds&& rounds) {
  const DType out = kConfig.x == DType::kNone ? args.out.dtype : kConfig.out;
  for_share(row_blocks(args), unit, units, [&](long long which) __attribute__((always_inline)) {
    const RowBlock block = row_block(args, which);
    // use(row, value(piece)), pieces from the block's first column on.
    const auto each_row = [&](auto&& use) __attribute__((always_inline)) {
      RowIndex at = block.first;
      for (int i = 0; i < block.rows; ++i, ++at.i[2]) {
        auto value = values(at);
        use(at, [&](auto piece)
                    __attribute__((always_inline)) { return value(decltype(piece){block.n + piece.n, piece.count}); });
      }
    };
    float most = 0;
    each_row([&](const RowIndex&, auto&& value) __attribute__((always_inline)) {
      const float one = largest_magnitude(block.columns, value);
      most = one > most || one != one ? one : most;
    });
    const Divisor by = divisor_of(store_scale(args.scale, out, block.scale_at, most));
    each_row([&](const RowIndex& row, auto&& value) __attribute__((always_inline)) {
      char* const to = row_start(args.out, row) + block.n * dtype_bits(out) / 8;
      auto round = rounds(row);
      for_pieces(block.columns, [&](auto piece) __attribute__((always_inline)) {
        char* const at = to + piece.n * dtype_bits(out) / 8;
        const F32x16 codes = round(divided(value(piece), by), block.n + piece.n);
        if constexpr (kConfig.x == DType::kNone) {
          alignas(64) float lanes[kVec];
          codes.store(lanes);
          encode_any(at, out, lanes, piece.count, nullptr);
        } else if constexpr (decltype(piece)::whole) {
          encode<kConfig.out>(at, codes);
        } else {
          encode_tail<kConfig.out>(at, codes, piece.count);
        }
      });
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
