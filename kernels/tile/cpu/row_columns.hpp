// SPDX-License-Identifier: MIT
// The vectors along a row that norms end with, as floats once for all rows of a unit: their types are asked for once, not a vector at a
// time.
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

inline constexpr long long kColumnRows = 4;  // rows of a unit that are worth it

// v times the weight, plus the bias, times what smooths columns. A row's code copies it: then no store may change it.
struct RowColumns {
  const RowArgs& args;
  const float *weight = nullptr, *bias = nullptr;  // kept; no weight: nothing is

  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 times_weight(F32x16 v, RowPiece<kWhole> at) const {
    if (weight != nullptr) return v * F32x16::load(weight + at.n);
    return tilewright::times_weight(args, v, at);
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 scale(F32x16 v, RowPiece<kWhole> at) const {
    if (weight == nullptr) return scale_columns(args, v, at);
    const F32x16 by = F32x16::load(weight + at.n);
    return bias == nullptr ? v * by : fma(v, by, F32x16::load(bias + at.n));
  }
};

// Room for what is kept, and a whole vector of it behind the row's end.
struct KeptColumns {
  alignas(64) float weight[kKeptValues], bias[kKeptValues];

  // Of rows that are scaled by a weight, and perhaps a bias.
  template <RowCpuConfig kConfig>
  TILEWRIGHT_INLINE RowColumns keep(const RowArgs& args, unsigned unit, unsigned units) {
    RowColumns columns{args};
    const bool keeps = kConfig.x != DType::kNone && args.weight.data != nullptr && args.smooth.data == nullptr &&
                       args.n <= kKeptValues &&
                       share_edge(args.rows, unit + 1, units) - share_edge(args.rows, unit, units) >= kColumnRows;
    if (!keeps) return columns;
    for_pieces(args.n, [&](auto at) { load_weight(args, at).store(weight + at.n); });
    columns.weight = weight;
    if (args.bias.data != nullptr) {
      for_pieces(args.n, [&](auto at) { load_column(args.bias, at).store(bias + at.n); });
      columns.bias = bias;
    }
    return columns;
  }
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
