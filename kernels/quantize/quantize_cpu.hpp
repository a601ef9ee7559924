// SPDX-License-Identifier: MIT
// quantize_cpu: rows, times what smooths columns, over scales that are given or found. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_blocks.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void quantize_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  constexpr bool kTyped = kConfig.x != DType::kNone;
  const auto values = [&args](const RowIndex& at) __attribute__((always_inline)) {
    return [&args, input = RowInput<kConfig>(args, at)](auto piece)
               __attribute__((always_inline)) { return scale_columns(args, input.added(piece), piece); };
  };
  if constexpr (!kTyped || kConfig.quant == Quantisation::kBlock) {
    if (kTyped || args.scale.quant == Quantisation::kBlock) return store_blocks<kConfig>(args, unit, units, values);
  }
  if constexpr (kConfig.quant != Quantisation::kBlock) {
    if (find_tensor_scale(args, unit, units, values)) return;
    for_rows(args, unit, units, [&](const RowIndex& at) { store_row<kConfig>(args, at, values(at)); });
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
