// SPDX-License-Identifier: MIT
// Blocks of neighbours by a Hadamard matrix in Sylvester's order, over the root of their size.
#pragma once

#include "tile/cpu/row.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Of pairs of lanes, the lower one has the sum.
using HadamardLanes = float __attribute__((vector_size(4 * kVec)));
template <int kDistance, int... kLane>
TILEWRIGHT_INLINE void rotate_lanes(float* at, detail::IndexList<kLane...>) {
  HadamardLanes x;
  __builtin_memcpy(&x, at, sizeof(x));
  const HadamardLanes signs = {((kLane & kDistance) == 0 ? 1.0f : -1.0f)...};
  const HadamardLanes rotated = __builtin_shufflevector(x, x, (kLane ^ kDistance)...) + x * signs;
  __builtin_memcpy(at, &rotated, sizeof(rotated));
}

// `count` values, whole blocks. Stages come in one order, so that bits are the same everywhere.
inline __attribute__((noinline)) void rotate_blocks(float* values, int count, int block) {
  constexpr detail::MakeIndexList<kVec>::List kLanes{};
  for (int i = 0; i < count; i += kVec) {
    float* const at = values + i;
    rotate_lanes<1>(at, kLanes), rotate_lanes<2>(at, kLanes), rotate_lanes<4>(at, kLanes), rotate_lanes<8>(at, kLanes);
  }
  for (int distance = kVec; distance < block; distance *= 2) {
    for (int i = 0; i < count; i += kVec) {
      if ((i & distance) != 0) continue;
      const F32x16 a = F32x16::load(values + i), b = F32x16::load(values + i + distance);
      (a + b).store(values + i), (a - b).store(values + i + distance);
    }
  }
  const F32x16 factor = F32x16::splat(hadamard_factor(block));
  for (int i = 0; i < count; i += kVec) (F32x16::load(values + i) * factor).store(values + i);
}

// A row's values by `value(piece)`, rotated 128 at a time and kept until others are asked for.
template <class Value>
class RotatedRow {
 public:
  TILEWRIGHT_INLINE RotatedRow(const RowArgs& args, Value value) : args_(args), value_(value) {}

  template <bool kWhole>
  TILEWRIGHT_INLINE F32x16 operator()(RowPiece<kWhole> piece) {
    const long long begin = piece.n / kKept * kKept;
    if (begin != begin_) rotate(begin);
    return F32x16::load(kept_ + piece.n % kKept);
  }

 private:
  static constexpr int kKept = 128;

  __attribute__((noinline)) void rotate(long long begin) {
    begin_ = begin;
    const long long left = args_.n - begin;
    const int count = left < kKept ? static_cast<int>(left) : kKept;
    for_pieces(count, [&](auto piece) __attribute__((always_inline)) {
      value_(decltype(piece){begin + piece.n, piece.count}).store(kept_ + piece.n);
    });
    if (args_.quantising.hadamard != 0) rotate_blocks(kept_, count, args_.quantising.hadamard);
  }

  const RowArgs& args_;
  Value value_;
  long long begin_ = -1;
  alignas(64) float kept_[kKept];
};

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
