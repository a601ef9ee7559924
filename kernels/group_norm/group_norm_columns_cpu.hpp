// SPDX-License-Identifier: MIT
// group_norm_cpu with channels last: position by position, all of a slab's channels one after another, so that lines are read and written in
// the order in which they lie. What channels have is kept in the first cache.
#pragma once

#include "group_norm/group_norm_channel_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Channels of an image that are taken together.
struct GroupNormSlab {
  long long image, first;
  int count;
};
// A unit's share of chunks of slabs: begin(slab) where its share begins or another slab does, and body(slab, chunk).
template <class Begin, class Body>
TILEWRIGHT_INLINE void for_slabs(const GroupNormArgs& args, unsigned unit, unsigned units, Begin&& begin, Body&& body) {
  const long long width = args.width, slabs = (args.channels + width - 1) / width;
  GroupNormSlab slab{-1, 0, 0};
  for_share(args.images * slabs * args.chunks, unit, units, [&](long long index) {
    const Quotient at = divided_by(index, args.chunks), of = divided_by(at.whole, slabs);
    const long long first = of.rest * width, left = args.channels - first;
    if (slab.image != of.whole || slab.first != first) {
      slab = {of.whole, first, static_cast<int>(left < width ? left : width)};
      begin(slab);
    }
    body(slab, group_norm_chunk(args, of.whole * args.chunks + at.rest));
  });
}

// What a slab's channels are normalised with, and 1 over their groups' deviations.
struct GroupNormColumns {
  alignas(64) float mean[kGroupNormCpuChannels] = {}, by[kGroupNormCpuChannels] = {}, bias[kGroupNormCpuChannels] = {};
  alignas(64) float inverse[kGroupNormCpuChannels] = {};

  TILEWRIGHT_INLINE void find(const GroupNormArgs& args, const GroupNormSlab& slab) {
    for_groups(args, slab, [&](int i, long long channel, const float* group) {
      const GroupNormScale<float> of = group_norm_scale(args, group, channel);
      mean[i] = of.mean, by[i] = of.by, bias[i] = of.bias, inverse[i] = group[1];
    });
  }
  template <class Piece>
  TILEWRIGHT_INLINE GroupNormScale<F32x16> at(Piece piece) const {
    return {F32x16::load(mean + piece.n), F32x16::load(by + piece.n), F32x16::load(bias + piece.n)};
  }
  // body(number in the slab, channel, what stands for its group)
  template <class Body>
  static TILEWRIGHT_INLINE void for_groups(const GroupNormArgs& args, const GroupNormSlab& slab, Body&& body) {
    const long long channels = args.channels / args.groups;
    Quotient at = divided_by(slab.first, channels);
    for (int i = 0; i < slab.count; ++i) {
      body(i, slab.first + i, group_part(args, slab.image, at.whole));
      if (++at.rest == channels) ++at.whole, at.rest = 0;
    }
  }
};

// Elements of a position at `x`, of which `step` bytes on the next one lies; those that come are asked for.
template <DType kType>
class GroupNormPositions {
 public:
  TILEWRIGHT_INLINE GroupNormPositions(const GroupNormArgs& args, const GroupNormTensor& t, const GroupNormSlab& slab,
                                       const GroupNormChunk& at)
      : step_(t.line * dtype_bits(args.dtype) / 8), dtype_(args.dtype) {
    const long long element = dtype_bits(dtype_) / 8, bytes = slab.count * element;
    x_ = line_start(args, t, at.image, at.begin) + slab.first * element;
    ahead_ = (kFetched + bytes - 1) / bytes * step_;
  }
  template <class Piece>
  TILEWRIGHT_INLINE F32x16 at(long long position, Piece piece) const {
    return load_piece<kType>(x_ + position * step_, dtype_, piece);
  }
  template <class Piece>
  TILEWRIGHT_INLINE void fetch_next(long long position, Piece piece) const {
    if constexpr (kType != DType::kNone) fetch(x_ + position * step_ + ahead_ + piece.n * kBytes<kType>);
  }

 private:
  static constexpr long long kFetched = 2048;  // bytes ahead, at least
  const char* x_;
  long long step_, ahead_;
  DType dtype_;
};

// Two sums a channel, of what add(sums, position, piece) adds.
struct GroupNormColumnSums {
  alignas(64) float first[kGroupNormCpuChannels], second[kGroupNormCpuChannels];

  template <class Add>
  TILEWRIGHT_INLINE void find(const GroupNormSlab& slab, long long positions, Add&& add) {
    for_pieces(slab.count,
               [&](auto piece) { F32x16::splat(0).store(first + piece.n), F32x16::splat(0).store(second + piece.n); });
    for (long long i = 0; i < positions; ++i) {
      for_pieces(slab.count, [&](auto piece) __attribute__((always_inline)) {
        F32x16 sums[2] = {F32x16::load(first + piece.n), F32x16::load(second + piece.n)};
        add(sums, i, piece);
        sums[0].store(first + piece.n), sums[1].store(second + piece.n);
      });
    }
  }
};

template <DType kType>
void find_column_moments(const GroupNormArgs& args, unsigned unit, unsigned units) {
  GroupNormColumnSums sums;
  for_slabs(
      args, unit, units, [](const GroupNormSlab&) {},
      [&](const GroupNormSlab& slab, const GroupNormChunk& at) {
        // Differences from a channel's first element lose nothing to a mean that is far above them.
        const GroupNormPositions<kType> x(args, args.x, slab, at);
        sums.find(slab, at.count, [&](F32x16(&to)[2], long long i, auto piece) __attribute__((always_inline)) {
          x.fetch_next(i, piece);
          const F32x16 off = x.at(i, piece) - x.at(0, piece);
          to[0] = to[0] + off, to[1] = fma(off, off, to[1]);
        });
        float* const to = channel_part(args, at, slab.first);
        for_pieces(slab.count, [&](auto piece) __attribute__((always_inline)) {
          float about[kVec];
          x.at(0, piece).store(about);
          for (int c = 0; c < piece.count; ++c) {
            const long long n = piece.n + c;
            const float of[2] = {sums.first[n], sums.second[n]};
            const RowMoments found = row_moments(about[c], of, static_cast<float>(at.count));
            to[2 * n] = found.mean, to[2 * n + 1] = found.variance;
          }
        });
      });
}

// The output of a slab's part of a chunk, each vector by value(position, piece). Whole lines go past the caches where no cache holds all.
template <DType kType, class Value>
TILEWRIGHT_INLINE void store_columns(const GroupNormArgs& args, const GroupNormSlab& slab, const GroupNormChunk& at,
                                     Value&& value) {
  const long long step = args.out.line * dtype_bits(args.dtype) / 8;
  char* out = line_start(args, args.out, at.image, at.begin) + slab.first * dtype_bits(args.dtype) / 8;
  const bool streams = streams_output<kType>(args) && step % kLineBytes == 0 && begins_line(out);
  for (long long i = 0; i < at.count; ++i, out += step) {
    long long done = 0;
    if constexpr (kType != DType::kNone) {
      constexpr int kVectors = kLineVectors<kLineType<kType>>, kLine = kVectors * kVec;
      for (; streams && done + kLine <= slab.count; done += kLine) {
        F32x16 line[kVectors];
        unroll<kVectors>(
            [&](auto v) __attribute__((always_inline)) { line[v] = value(i, RowPiece<true>{done + v * kVec, kVec}); });
        stream_line<kLineType<kType>>(out + done * kBytes<kLineType<kType>>, line);
      }
    }
    for_pieces(slab.count - done, [&](auto rest) __attribute__((always_inline)) {
      const decltype(rest) piece{done + rest.n, rest.count};
      store_piece<kType>(out, args.dtype, piece, value(i, piece));
    });
  }
}

template <DType kType, bool kSilu>
void normalise_columns(const GroupNormArgs& args, unsigned unit, unsigned units) {
  GroupNormColumns columns;
  for_slabs(
      args, unit, units, [&](const GroupNormSlab& slab) { columns.find(args, slab); },
      [&](const GroupNormSlab& slab, const GroupNormChunk& at) {
        const GroupNormPositions<kType> x(args, args.x, slab, at);
        store_columns<kType>(args, slab, at, [&](long long i, auto piece) __attribute__((always_inline)) {
          x.fetch_next(i, piece);
          return group_norm_value<kSilu>(columns.at(piece), x.at(i, piece));
        });
      });
  if (streams_output<kType>(args)) stream_fence();
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
