// SPDX-License-Identifier: MIT
// cross_entropy_cpu: the loss of a row and its gradient. A row is read for its largest value and the sum of exponentials; the gradient
// is made of these, where they could be kept, or of the row. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_exponentials.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void cross_entropy_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowLoss& l = args.loss;
    const int target = l.target[row_offset(l.stride_target, at)];
    const bool ignored = is_ignored(args, target), known = target >= 0 && target < args.n;
    const RowInput<kConfig> input(args, at);
    const auto value = [&](auto piece) __attribute__((always_inline)) { return input.added(piece); };

    // Nothing of what counts nothing is read.
    RowLogits of{0, kLeastValue, __builtin_bit_cast(float, 0x7FC00000u), 0};
    alignas(64) float near_by[kExponentialPart];
    float* const kept = args.out.data == nullptr ? nullptr : kept_exponentials(args, unit, near_by);
    float sum = 1, to_most = 1;
    if (!ignored || l.lse != nullptr) {
      const RowExponentials all = sum_exponentials<kShortValues<kConfig.x>>(args.n, 1, input, value, kept);
      of.most = all.most, of.logarithm = log_of_sum(all.sum), sum = all.sum, to_most = all.kept;
      if (l.smoothing != 0) {
        float total[1];
        sum_row(args.n, total, [&](F32x16(&part)[1], auto piece) __attribute__((always_inline)) {
          part[0] = part[0] + within_row(value(piece), piece);
        });
        of.total = total[0];
      }
      float lane[kVec];
      if (known) {
        value(RowPiece<false>{target, 1}).store(lane);
        of.target = lane[0];
      }
    }
    l.loss[row_offset(l.stride_loss, at)] = row_loss(args, target, of);
    const float lse = of.most + of.logarithm;
    if (l.lse != nullptr) l.lse[row_offset(l.stride_lse, at)] = lse;

    if constexpr (kConfig.x == DType::kNone || kConfig.out != DType::kNone) {
      if (args.out.data == nullptr) return;
      const RowGradient by = row_gradient(args, target, lse, sum);
      const RowExponential exponential(of.most, 1);
      const F32x16 even = F32x16::splat(by.even);
      store_row<kConfig>(args, at, input, [&](auto piece) __attribute__((always_inline)) {
        if (ignored) return F32x16::splat(0);
        const F32x16 y = kept == nullptr ? fma_less(exponential(value(piece)), F32x16::splat(by.by), even)
                                         : fma_less(F32x16::load(kept + piece.n), F32x16::splat(by.by * to_most), even);
        const long long place = target - piece.n;
        if (place < 0 || place >= kVec) return y;
        float lane[kVec];
        y.store(lane);
        lane[place] -= by.hot;
        return F32x16::load(lane);
      });
    }
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
