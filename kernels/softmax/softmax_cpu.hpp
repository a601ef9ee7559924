// SPDX-License-Identifier: MIT
// softmax_cpu: a row is read for its largest value and the sum of exponentials; the output is made of these, where they could be kept, or of
// the row. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_exponentials.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void softmax_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);
    // The factor's sign stands before the largest value is sought, its magnitude behind the difference, which it never overflows.
    const float sign = args.alpha < 0 ? -1 : 1, factor = sign * args.alpha;
    const auto value = [&](auto piece)
                           __attribute__((always_inline)) { return input.added(piece) * F32x16::splat(sign); };

    alignas(64) float near_by[kExponentialPart];
    float* const kept = args.log ? nullptr : kept_exponentials(args, unit, near_by);
    const RowExponentials all = sum_exponentials<kShortValues<kConfig.x>>(args.n, factor, input, value, kept);
    const float most = all.most, sum = all.sum;

    // Without an exponential, the sum of nothing but minus infinities makes NaN of all.
    const float inverse = 1 / sum, logarithm = args.log ? log_of_sum(sum) : 0;
    const RowExponential exponential(most, factor);
    store_row<kConfig>(args, at, NothingNext(), [&](auto piece) __attribute__((always_inline)) {
      if (kept != nullptr) return F32x16::load(kept + piece.n) * F32x16::splat(all.kept * inverse);
      const F32x16 v = value(piece);
      if (!args.log) return exponential(v) * F32x16::splat(inverse);
      return (v - F32x16::splat(most)) * F32x16::splat(factor) - F32x16::splat(logarithm);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
