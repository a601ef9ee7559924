// SPDX-License-Identifier: MIT
// rope_cpu: pairs of a head's elements turned by the angle of its token. Typed by its config, or at run time.
#pragma once

#include "tile/cpu/row_pairs.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Heads of a token and tensor.
struct TurnedHeads {
  RotatedHead first;
  long long count, from_step, to_step;  // in bytes
  bool stream;

  TILEWRIGHT_INLINE TurnedHeads(const RowArgs& args, const RowIndex& at, long long end, long long bytes)
      : first(rotated_head(args, at)) {
    const bool second = at.i[2] >= args.rotation.heads;
    count = (second || end < args.rotation.heads ? end : args.rotation.heads) - at.i[2];
    from_step = (second ? args.residual : args.x).stride[2] * bytes;
    to_step = (second ? args.residual_out : args.out).stride[2] * bytes;
    // Lines that were read in place are near.
    stream = args.stream && first.from != first.to && begins_line(first.to) && to_step % kLineBytes == 0;
  }
  template <class Body>
  TILEWRIGHT_INLINE void each(Body&& body) const {
    for (long long h = 0; h < count; ++h) body(first.from + h * from_step, first.to + h * to_step);
  }
};

// Turned by what angles(piece) gives for 16 pairs, in the order of elements where whole lines turn.
template <DType kType>
TILEWRIGHT_INLINE void turn_heads(const RowRotation& r, const TurnedHeads& heads, DType dtype,
                                  const TokenAngles& angles) {
  if constexpr (kType != DType::kNone) {
    if (turns_lines<kType>(r)) {
      return heads.each([&](const char* from, char* to) __attribute__((always_inline)) {
        turn_lines<kType>(
            r,
            [&](auto at) __attribute__((always_inline)) {
              fetch(from + at.n * kBytes<kType> + kFetchedLines);
              return load_apart<kType>(from + at.n * kBytes<kType>);
            },
            angles,
            [&](long long n, auto& line) __attribute__((always_inline)) {
              encode_apart<kType, kType>(to + n * kBytes<kType>, line, heads.stream);
            });
      });
    }
  }
  heads.each([&](const char* from, char* to)
                 __attribute__((always_inline)) { turn_runs<kType>(r, from, to, dtype, heads.stream, angles); });
}

template <RowCpuConfig kConfig>
void rope_cpu(const RowArgs& arguments, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.x;
  const RowArgs args = arguments;  // which no store changes
  const RowRotation& r = args.rotation;
  const DType dtype = args.x.dtype;
  const long long bytes = dtype_bits(kType == DType::kNone ? dtype : kType) / 8;
  bool lines = false;
  if constexpr (kType != DType::kNone) lines = turns_lines<kType>(r);
  const bool kept = r.dims <= TokenAngles::kMostDims;
  TokenAngles angles;
  const long long last = share_edge(args.rows, unit + 1, units);
  for (long long row = share_edge(args.rows, unit, units); row < last;) {
    RowIndex at = row_index(args, row);
    RowAngles of_axis[kRopeAxes];
    for (int axis = 0; axis < r.axes; ++axis) of_axis[axis] = row_angles(args, at, axis);
    if (kept && lines) {
      angles.keep<kType>(r, of_axis);
    } else if (kept) {
      angles.keep<DType::kNone>(r, of_axis);
    }

    // The token's heads, of one tensor and the other.
    const long long end = args.size[2] - at.i[2] < last - row ? args.size[2] : at.i[2] + last - row;
    while (at.i[2] < end) {
      const TurnedHeads heads(args, at, end, bytes);
      at.i[2] += heads.count, row += heads.count;
      if (kept) {
        turn_heads<kType>(r, heads, dtype, angles);
      } else {
        heads.each([&](const char* from, char* to) {
          turn_runs<DType::kNone>(r, from, to, dtype, false,
                                  [&](auto pairs) { return load_angles(r, of_axis, pairs); });
        });
      }

      // What does not turn.
      if (heads.first.from == heads.first.to || args.n == r.dims) continue;
      heads.each([&](const char* from, char* to) __attribute__((always_inline)) {
        for_pieces(args.n - r.dims, [&](auto at) __attribute__((always_inline)) {
          store_piece<kType>(to + r.dims * bytes, dtype, at, load_piece<kType>(from + r.dims * bytes, dtype, at));
        });
      });
    }
  }
  if (args.stream) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
