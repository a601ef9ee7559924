// SPDX-License-Identifier: MIT
// gated_rms_norm_cpu: a row is read once from memory, and again from the caches. Typed by its config, or at run time.
#pragma once

#include "gemm/cpu/gemm_activation_cpu.hpp"
#include "tile/cpu/row_columns.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void gated_rms_norm_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  KeptColumns kept_columns;
  const RowColumns columns_of_unit =
      args.weight_groups == 1 ? kept_columns.keep<kConfig>(args, unit, units) : RowColumns{args};
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowInput<kConfig> input(args, at);
    const RowColumns columns = columns_of_unit;
    const auto gate = [&](auto piece) __attribute__((always_inline)) { return silu(input.other(piece)); };
    const auto value = [&](auto piece) __attribute__((always_inline)) {
      const F32x16 x = input.own(piece);
      return args.gate_first ? x * gate(piece) : x;
    };

    // 1 / sqrt(mean of squares + eps)
    alignas(64) float values[kKeptValues];
    const bool kept = args.n <= kKeptValues;
    const float squares = sum_squares(args.n, [&](auto piece) __attribute__((always_inline)) {
      const F32x16 v = value(piece);
      if (kept) v.store(values + piece.n);
      return v;
    });
    const float inverse = 1 / __builtin_sqrtf(squares / static_cast<float>(args.n) + args.eps);

    // Rows of the third dimension go round among the weight's groups.
    RowVector weight = args.weight;
    if (weight.data != nullptr) {
      weight.data = offset_bytes(weight.data, at.i[2] % args.weight_groups * args.n * dtype_bits(weight.dtype) / 8);
    }
    store_row<kConfig>(args, at, input, [&](auto piece) __attribute__((always_inline)) {
      F32x16 v = (kept ? F32x16::load(values + piece.n) : value(piece)) * F32x16::splat(inverse);
      if (columns.weight != nullptr) {
        v = columns.times_weight(v, piece);
      } else if (weight.data != nullptr) {
        v = v * load_column(weight, piece);
      }
      return args.gate_first ? v : v * gate(piece);
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
