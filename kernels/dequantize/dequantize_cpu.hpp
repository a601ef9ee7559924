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
    scales.for_spans(args.n, [&](long long begin, long long length, auto&& scale) __attribute__((always_inline)) {
      const auto value = [&](auto piece) __attribute__((always_inline)) {
        return codes.load(decltype(piece){begin + piece.n, piece.count}) * F32x16::splat(scale(piece.n));
      };
      char* const to = row + begin * dtype_bits(args.out.dtype) / 8;
      if constexpr (kConfig.x == DType::kNone) {
        for_pieces(length, [&](auto piece) {
          alignas(64) float values[kVec];
          value(piece).store(values);
          encode_any(to + piece.n * dtype_bits(args.out.dtype) / 8, args.out.dtype, values, piece.count, nullptr);
        });
      } else {
        encode_values<kConfig.out>(to, length, args.stream, value);
      }
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
