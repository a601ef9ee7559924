// SPDX-License-Identifier: MIT
// rope_cpu: pairs of a head's elements turned by the angle of its token. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_pairs.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <RowCpuConfig kConfig>
void rope_cpu(const RowArgs& args, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.x;
  const RowRotation& r = args.rotation;
  const DType dtype = args.x.dtype;
  for_rows(args, unit, units, [&](const RowIndex& at) {
    const RotatedHead head = rotated_head(args, at);
    RowAngles of_axis[kRopeAxes];
    for (int axis = 0; axis < r.axes; ++axis) of_axis[axis] = row_angles(args, at, axis);
    turn_pairs<kType>(r, of_axis, head.from, head.to, dtype);

    // What does not turn.
    if (head.from == head.to) return;
    const long long bytes = r.dims * dtype_bits(dtype) / 8;
    for_pieces(args.n - r.dims, [&](auto piece) __attribute__((always_inline)) {
      store_piece<kType>(head.to + bytes, dtype, piece, load_piece<kType>(head.from + bytes, dtype, piece));
    });
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
