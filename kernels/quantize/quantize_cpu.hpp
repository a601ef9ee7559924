// SPDX-License-Identifier: MIT
// quantize_cpu: rows, times what smooths columns, rotated or not, over scales that are given or found. Typed by its config, or at run
// time.
#pragma once

#include "quantize/chance_cpu.hpp"
#include "quantize/hadamard_cpu.hpp"
#include "tile/cpu/row_blocks.hpp"
#include "tile/cpu/row_plain.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Of values by `values(row)(piece)`, and what rounds(row) does to quotients.
template <RowCpuConfig kConfig, class Values, class Rounds>
TILEWRIGHT_INLINE void quantize_rows(const RowArgs& args, unsigned unit, unsigned units, Values&& values,
                                     Rounds&& rounds) {
  constexpr bool kTyped = kConfig.x != DType::kNone;
  if constexpr (!kTyped || kConfig.quant == Quantisation::kBlock) {
    if (kTyped || args.scale.quant == Quantisation::kBlock) {
      return store_blocks<kConfig>(args, unit, units, values, rounds);
    }
  }
  if constexpr (kConfig.quant != Quantisation::kBlock) {
    if (find_tensor_scale(args, unit, units, values)) return;
    for_rows(args, unit, units, [&](const RowIndex& at) {
      store_row<kConfig>(args, at, RowInput<kConfig>(args, at), values(at), rounds(at));
    });
  }
}

template <RowCpuConfig kConfig>
void quantize_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  constexpr bool kTyped = kConfig.x != DType::kNone;
  const auto values = [&args](const RowIndex& at) __attribute__((always_inline)) {
    return [&args, input = RowInput<kConfig>(args, at)](auto piece)
               __attribute__((always_inline)) { return scale_columns(args, input.added(piece), piece); };
  };
  const auto rotated = [&args, &values](const RowIndex& at)
                           __attribute__((always_inline)) { return RotatedRow(args, values(at)); };
  const auto by_chance = [&args](const RowIndex& at) __attribute__((always_inline)) { return RoundByChance(args, at); };
  const auto nearest = [](const RowIndex&) __attribute__((always_inline)) { return KeepQuotients(); };
  if constexpr (!kTyped || (kConfig.hadamard && kConfig.chance)) {
    quantize_rows<kConfig>(args, unit, units, rotated, by_chance);
  } else if constexpr (kConfig.hadamard) {
    quantize_rows<kConfig>(args, unit, units, rotated, nearest);
  } else if constexpr (kConfig.chance) {
    quantize_rows<kConfig>(args, unit, units, values, by_chance);
  } else if (args.smooth.data == nullptr) {
    const auto plain = [&args](const RowIndex& at)
                           __attribute__((always_inline)) { return PlainRow<kConfig.x>{row_start(args.x, at)}; };
    quantize_rows<kConfig>(args, unit, units, plain, nearest);
  } else {
    quantize_rows<kConfig>(args, unit, units, values, nearest);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
