// SPDX-License-Identifier: MIT
// What the gradients of norms end with: x's gradient of a row, and sums of columns over rows. A share of the rows that no number of threads
// changes adds up its own part, and parts are added in their order.
#pragma once

#include "tile/cpu/row_columns.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A row of x, its output's gradient, and the parts that it is added to.
template <RowCpuConfig kConfig>
struct BackwardRow {
  const RowArgs& args;
  RowIndex place;
  RowInput<kConfig> input;
  RowColumns columns;
  const char* added;
  float *weight, *bias;
  bool first;  // of its part

  TILEWRIGHT_INLINE BackwardRow(const RowArgs& a, const RowColumns& c, const RowIndex& at, long long part,
                                bool is_first)
      : args(a),
        place(at),
        input(a, at),
        columns(c),
        added(row_start(a.backward.added, at)),
        weight(weight_part(a, part)),
        bias(bias_part(a, part)),
        first(is_first) {}

  // x's elements, and those of the output's gradient times the weight.
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 x(RowPiece<kWhole> at) const {
    return input.own(at);
  }
  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 weighted(RowPiece<kWhole> at) const {
    return columns.times_weight(input.other(at), at);
  }

  template <bool kWhole>
  TILEWRIGHT_INLINE void add_to(float* part, RowPiece<kWhole> at, F32x16 x) const {
    if (part == nullptr) return;
    char* const to = reinterpret_cast<char*>(part);
    if (!first) x = x + load_piece<DType::kF32>(to, DType::kF32, at);
    store_piece<DType::kF32>(to, DType::kF32, at, x);
  }
  TILEWRIGHT_INLINE void store(const NormGradient& by) const {
    const F32x16 about = F32x16::splat(by.about), inverse = F32x16::splat(by.inverse);
    store_row<kConfig>(args, place, input, [&](auto at) __attribute__((always_inline)) {
      const F32x16 normalised = (x(at) - about) * inverse, dy = input.other(at);
      F32x16 dx = (weighted(at) - F32x16::splat(by.mean) - normalised * F32x16::splat(by.along)) * inverse;
      add_to(weight, at, dy * normalised);
      add_to(bias, at, dy);
      if (added != nullptr) dx = dx + load_piece<kConfig.out>(added, args.out.dtype, at);
      return dx;
    });
  }
};

// A unit's share of the columns: parts of each in their order.
inline void sum_columns(const RowArgs& args, unsigned unit, unsigned units) {
  const long long pieces = (args.n + kVec - 1) / kVec;
  const auto edge = [&](unsigned of) {
    const long long n = pieces * of / units * kVec;
    return n < args.n ? n : args.n;
  };
  const long long begin = edge(unit), length = edge(unit + 1) - begin;
  const auto sum = [&](const float* parts, const RowSums& to) {
    if (to.data == nullptr) return;
    for_pieces(length, [&](auto piece) {
      const decltype(piece) at{begin + piece.n, piece.count};
      F32x16 all = F32x16::splat(0);
      for (long long part = 0; part < args.part_count; ++part) {
        all = all + load_piece<DType::kF32>(reinterpret_cast<const char*>(parts + part * args.n), DType::kF32, at);
      }
      store_piece<DType::kNone>(static_cast<char*>(to.data), to.dtype, at, all);
    });
  };
  sum(weight_part(args, 0), args.backward.weight);
  sum(bias_part(args, 0), args.backward.bias);
}

// A unit's share of the rows, or of the columns: gradient(BackwardRow) is a row's.
template <RowCpuConfig kConfig, class Gradient>
TILEWRIGHT_INLINE void for_backward_rows(const RowArgs& args, unsigned unit, unsigned units, Gradient&& gradient) {
  if (args.step == RowStep::kColumns) return sum_columns(args, unit, units);
  KeptColumns kept_columns;
  const RowColumns columns = kept_columns.keep<kConfig>(args, unit, units);
  const auto rows = [&](unsigned share, unsigned shares) {
    bool first = true;
    for_rows(args, share, shares, [&](const RowIndex& at) {
      const BackwardRow<kConfig> row(args, columns, at, share, first);
      row.store(gradient(row));
      first = false;
    });
  };
  if (args.part_count == 0) return rows(unit, units);
  const auto parts = static_cast<unsigned>(args.part_count);
  for (unsigned part = unit; part < parts; part += units) rows(part, parts);
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
