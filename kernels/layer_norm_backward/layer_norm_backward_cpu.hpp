// SPDX-License-Identifier: MIT
// layer_norm_backward_cpu: rows are read once from memory, for their moments and what they have to do with their outputs' gradients, and again from
// the caches. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_backward.hpp"
#include "tile/cpu/row_comoments.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void layer_norm_backward_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_backward_rows<kConfig>(args, unit, units, [&](const BackwardRow<kConfig>& row) {
    const RowComoments found = find_comoments(
        args.n, [&](auto at) __attribute__((always_inline)) { return row.x(at); },
        [&](auto at) __attribute__((always_inline)) { return row.weighted(at); });
    const float inverse = 1 / __builtin_sqrtf(found.variance + args.eps);
    return NormGradient{found.mean, inverse, found.other_mean, found.products * inverse};
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
