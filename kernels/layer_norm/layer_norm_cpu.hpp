// SPDX-License-Identifier: MIT
// layer_norm_cpu: a row is read once from memory, and again from the caches: for its mean, for what lies about it, for the output.
// Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_columns.hpp"
#include "tile/cpu/row_moments.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void layer_norm_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  KeptColumns kept_columns;
  const RowColumns columns_of_unit = kept_columns.keep<kConfig>(args, unit, units);
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);
    const RowColumns columns = columns_of_unit;

    // Elements of 16 bits are widened once.
    alignas(64) float values[kKeptValues];
    const bool kept = kConfig.x != DType::kF32 && args.n <= kKeptValues;
    const auto first = [&](auto piece) __attribute__((always_inline)) {
      const F32x16 v = input.first(piece);
      if (kept) v.store(values + piece.n);
      return v;
    };
    const auto again = [&](auto piece) __attribute__((always_inline)) {
      return kept ? F32x16::load(values + piece.n) : input.again(piece);
    };
    const RowMoments moments = find_moments(args.n, first, again);
    const float inverse = 1 / __builtin_sqrtf(moments.variance + args.eps);

    store_row<kConfig>(args, at, input, [&](auto piece) __attribute__((always_inline)) {
      F32x16 v = (within_row(again(piece) - F32x16::splat(moments.mean), piece)) * F32x16::splat(inverse);
      if (args.round_before_weight) v = rounded_to<kConfig.x>(args.x.dtype, v);
      return columns.scale(v, piece);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
