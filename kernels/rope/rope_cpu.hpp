// SPDX-License-Identifier: MIT
// rope_cpu: pairs of a head's elements turned by the angle of its token. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_pairs.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void rope_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.x;
  const RowRotation& r = args.rotation;
  const DType dtype = args.x.dtype;
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RotatedRow row = rotated_row(args, at);
    const long long half = r.dims / 2;
    for_pieces(half, [&](auto piece) __attribute__((always_inline)) {
      // The pair, its cosine and its sine.
      F32x16 a, b;
      if (r.interleaved) {
        load_pairs<kType>(row.from, dtype, piece, a, b);
      } else {
        a = load_piece<kType>(row.from, dtype, piece);
        b = load_piece<kType>(row.from + half * dtype_bits(dtype) / 8, dtype, piece);
      }
      const F32x16 cosine = load_column({row.cosine, r.table}, piece) * F32x16::splat(row.known);
      const F32x16 sine = load_column({row.sine, r.table}, piece) * F32x16::splat(row.sign);

      const F32x16 first = fma(a, cosine, F32x16::splat(0) - b * sine), second = fma(b, cosine, a * sine);
      if (r.interleaved) return store_pairs<kType>(row.to, dtype, piece, first, second);
      store_piece<kType>(row.to, dtype, piece, first);
      store_piece<kType>(row.to + half * dtype_bits(dtype) / 8, dtype, piece, second);
    });

    // What does not turn.
    if (row.from == row.to) return;
    const long long bytes = r.dims * dtype_bits(dtype) / 8;
    for_pieces(args.n - r.dims, [&](auto piece) __attribute__((always_inline)) {
      store_piece<kType>(row.to + bytes, dtype, piece, load_piece<kType>(row.from + bytes, dtype, piece));
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
