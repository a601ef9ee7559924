// SPDX-License-Identifier: MIT
// group_norm_backward_cpu with channels last: as group_norm_columns_cpu.hpp takes them.
#pragma once

#include "group_norm/group_norm_columns_cpu.hpp"
#include "group_norm_backward/group_norm_backward_channel_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// x and dy at the positions of a chunk.
template <DType kType, bool kSilu>
class GroupNormPairs {
 public:
  TILEWRIGHT_INLINE GroupNormPairs(const GroupNormArgs& args, const GroupNormSlab& slab, const GroupNormChunk& at)
      : x_(args, args.x, slab, at), dy_(args, args.dy, slab, at) {}
  template <class Piece>
  TILEWRIGHT_INLINE GroupNormSlope at(const GroupNormScale<F32x16>& by, long long position, Piece piece) const {
    x_.fetch_next(position, piece), dy_.fetch_next(position, piece);
    return group_norm_slope<kSilu>(by, x_.at(position, piece), dy_.at(position, piece));
  }

 private:
  const GroupNormPositions<kType> x_, dy_;
};

template <DType kType, bool kSilu>
void find_column_sums(const GroupNormArgs& args, unsigned unit, unsigned units) {
  GroupNormColumns columns;
  GroupNormColumnSums sums;
  for_slabs(
      args, unit, units, [&](const GroupNormSlab& slab) { columns.find(args, slab); },
      [&](const GroupNormSlab& slab, const GroupNormChunk& at) {
        const GroupNormPairs<kType, kSilu> from(args, slab, at);
        sums.find(slab, at.count, [&](F32x16(&to)[2], long long i, auto piece) __attribute__((always_inline)) {
          const GroupNormSlope of = from.at(columns.at(piece), i, piece);
          to[0] = to[0] + of.gradient, to[1] = fma(of.gradient, of.off, to[1]);
        });
        float* const to = channel_part(args, at, slab.first);
        for (int n = 0; n < slab.count; ++n) {
          to[2 * n] = sums.first[n], to[2 * n + 1] = sums.second[n] * columns.inverse[n];
        }
      });
}

template <DType kType, bool kSilu>
void find_column_gradient(const GroupNormArgs& args, unsigned unit, unsigned units) {
  GroupNormColumns columns;
  alignas(64) float less[kGroupNormCpuChannels] = {}, along[kGroupNormCpuChannels] = {};
  for_slabs(
      args, unit, units,
      [&](const GroupNormSlab& slab) {
        columns.find(args, slab);
        GroupNormColumns::for_groups(args, slab, [&](int i, long long, const float* group) {
          const GroupNormMeans<float> of = group_norm_means(group);
          less[i] = of.less, along[i] = of.along;
        });
      },
      [&](const GroupNormSlab& slab, const GroupNormChunk& at) {
        const GroupNormPairs<kType, kSilu> from(args, slab, at);
        store_columns<kType>(args, slab, at, [&](long long i, auto piece) __attribute__((always_inline)) {
          const GroupNormScale<F32x16> by = columns.at(piece);
          return group_norm_gradient(by, {F32x16::load(less + piece.n), F32x16::load(along + piece.n)},
                                     from.at(by, i, piece));
        });
      });
  if (streams_output<kType>(args)) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
