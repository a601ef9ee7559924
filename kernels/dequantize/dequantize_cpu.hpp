// SPDX-License-Identifier: MIT
// dequantize_cpu: rows of codes, times scales that are given. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_codes.hpp"
#include "tile/cpu/row_store.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void dequantize_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RowCodes<kConfig.x> codes(args, at);
    GivenScales<kConfig.x == DType::kNone ? Quantisation::kNone : kConfig.quant> scales(args, at);
    char* const row = row_start(args.out, at);
    const auto value = [&](auto piece) __attribute__((always_inline)) {
      return codes.load(piece) * F32x16::splat(scales.at(piece.n));
    };
    if constexpr (kConfig.x == DType::kNone) {
      for_pieces(args.n, [&](auto piece) {
        alignas(64) float values[kVec];
        value(piece).store(values);
        encode_any(row + piece.n * dtype_bits(args.out.dtype) / 8, args.out.dtype, values, piece.count, nullptr);
      });
    } else {
      encode_row<kConfig.out>(args, row, value);
    }
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
