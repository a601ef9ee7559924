// SPDX-License-Identifier: MIT
// elementwise_cpu: rows to another type, with a sum or a product on the way. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void elementwise_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);
    float one[kVec] = {};
    if (input.adds() && args.single) load_any(input.residual, args.residual.dtype, 1, one);
    store_row<kConfig>(args, at, input, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 v = input.own(piece);
      if (!input.adds()) return v;
      const F32x16 b = args.single ? F32x16::splat(one[0]) : input.other(piece);
      return args.arithmetic == Arithmetic::kMul ? v * b : v + b;
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
