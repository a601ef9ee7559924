// SPDX-License-Identifier: MIT
// Where an element of packed weights lies, for every type that has a packed form: gemm_args.hpp's panels of 8 bits and more, and
// those of 4 bits, which kernels of CPUs read. Freestanding.
//
// 4 bits: lines of 16 columns x 8 consecutive k, four bytes a column, the even k in the low nibble, as in a plain row:
//   [ceil(N/16)] [lines] [16 n] [8 k],   lines = ceil(K/8) rounded up to 16
// So a line is one vector with a column in each lane, and 16 lines are 128 of K, a block of what gemv_dequant_packed_cpu
// multiplies. Padding is zero bits.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

struct PackedLayout {
  int64 kp, line_bytes, lines, panel_bytes, batch_bytes;

  // Of a panel: the index of element [k, column], in elements.
  constexpr int64 element(int64 k, int64 column) const { return (k / kp * kPanelColumns + column) * kp + k % kp; }
};

constexpr PackedLayout packed_layout(DType dtype, int64 n, int64 k) {
  if (dtype_bits(dtype) != 4) {
    return {packed_kp(dtype), packed_line_bytes(dtype), packed_lines(dtype, k), packed_panel_bytes(dtype, k),
            packed_batch_bytes(dtype, n, k)};
  }
  constexpr int64 kKp = 8, kLine = 64;
  const int64 lines = ((k + kKp - 1) / kKp + kPanelLineGroup - 1) / kPanelLineGroup * kPanelLineGroup;
  return {kKp, kLine, lines, lines * kLine, packed_panels(n) * lines * kLine};
}

}  // namespace tilewright
