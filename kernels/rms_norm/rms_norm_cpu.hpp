// SPDX-License-Identifier: MIT
// rms_norm_cpu: a row is read once from memory, and again from the caches. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_columns.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void rms_norm_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  KeptColumns kept_columns;
  const RowColumns columns_of_unit = kept_columns.keep<kConfig>(args, unit, units);
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);
    const RowColumns columns = columns_of_unit;

    // 1 / sqrt(mean of squares + eps)
    const float squares =
        sum_squares(args.n, [&](auto piece) __attribute__((always_inline)) { return input.first(piece); });
    const float inverse = 1 / __builtin_sqrtf(squares / static_cast<float>(args.n) + args.eps);

    store_row<kConfig>(args, at, input, [&](auto piece) __attribute__((always_inline)) {
      F32x16 v = input.again(piece) * F32x16::splat(inverse);
      if (args.round_before_weight) v = rounded_to<kConfig.x>(args.x.dtype, v);
      return columns.scale(v, piece);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
