// SPDX-License-Identifier: MIT
// layer_norm_cpu: a row is read once from memory, for its moments, and again from the caches. Typed by its config, or at run time.
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

    const RowMoments moments =
        find_moments(args.n, [&](auto piece) __attribute__((always_inline)) { return input.first(piece); });
    const float inverse = 1 / __builtin_sqrtf(moments.variance + args.eps);

    store_row<kConfig>(args, at, input, [&](auto piece) __attribute__((always_inline)) {
      F32x16 v = (within_row(input.again(piece) - F32x16::splat(moments.mean), piece)) * F32x16::splat(inverse);
      if (args.round_before_weight) v = rounded_to<kConfig.x>(args.x.dtype, v);
      return columns.scale(v, piece);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
