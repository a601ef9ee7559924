// SPDX-License-Identifier: MIT
// group_norm_cpu: x is read for the moments of each channel's part of a chunk, which are merged to those of groups, and again for the
// output. Typed by its config, or at run time.
#pragma once

#include "group_norm/group_norm_columns_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A unit's share of the channels of chunks: body(chunk, channel, its part's length).
template <class Body>
TILEWRIGHT_INLINE void for_channel_chunks(const GroupNormArgs& args, unsigned unit, unsigned units, Body&& body) {
  for_share(args.images * args.channels * args.chunks, unit, units, [&](long long index) {
    const Quotient at = divided_by(index, args.chunks), channel = divided_by(at.whole, args.channels);
    body(group_norm_chunk(args, channel.whole * args.chunks + at.rest), channel.rest);
  });
}
// Differences from the part's first element lose nothing to a mean that is far above them.
template <DType kType>
TILEWRIGHT_INLINE void find_moments_of(const GroupNormArgs& args, const GroupNormChunk& at, long long channel) {
  const char* const x = line_start(args, args.x, at.image, channel) + at.begin * dtype_bits(args.dtype) / 8;
  const float about = with_float<kType>(args.dtype, [x](auto type) { return load_one<type.value>(x); });
  float sum[2];  // of differences, and of their squares
  sum_row(at.count, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
    const F32x16 d = within_row(load_piece<kType>(x, args.dtype, piece) - F32x16::splat(about), piece);
    part[0] = part[0] + d, part[1] = fma(d, d, part[1]);
  });
  const RowMoments found = row_moments(about, sum, static_cast<float>(at.count));
  float* const to = channel_part(args, at, channel);
  to[0] = found.mean, to[1] = found.variance;
}
template <DType kType>
void find_line_moments(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_channel_chunks(args, unit, units,
                     [&](const GroupNormChunk& at, long long channel)
                         __attribute__((always_inline)) { find_moments_of<kType>(args, at, channel); });
}

// Elements `ahead` bytes from these are asked for.
template <DType kType, bool kSilu>
TILEWRIGHT_INLINE void normalise_line(const GroupNormArgs& args, const GroupNormChunk& at, long long channel,
                                      bool streams, long long ahead) {
  const DType dtype = args.dtype;
  const long long bytes = at.begin * dtype_bits(dtype) / 8;
  const char* const x = line_start(args, args.x, at.image, channel) + bytes;
  char* const out = line_start(args, args.out, at.image, channel) + bytes;
  const GroupNormScale<F32x16> by = splat(group_norm_scale(args, group_of(args, at.image, channel), channel));
  long long done = 0;
  if constexpr (kType != DType::kNone) {
    constexpr int kVectors = kLineVectors<kType>;
    const long long whole = streams && begins_line(out) ? at.count / (kVectors * kVec) * (kVectors * kVec) : 0;
    for (; done < whole; done += kVectors * kVec) {
      if (ahead != 0) fetch(x + done * kBytes<kType> + ahead);
      F32x16 line[kVectors];
      for (int i = 0; i < kVectors; ++i) {
        line[i] = group_norm_value<kSilu>(by, load_vec<kType>(x + (done + i * kVec) * kBytes<kType>));
      }
      stream_line<kType>(out + done * kBytes<kType>, line);
    }
  }
  const long long past = done * dtype_bits(dtype) / 8;
  for_pieces(at.count - done, [=](auto piece) __attribute__((always_inline)) {
    const F32x16 y = group_norm_value<kSilu>(by, load_piece<kType>(x + past, dtype, piece));
    store_piece<kType>(out + past, dtype, piece, y);
  });
}
template <DType kType, bool kSilu>
void normalise_lines(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const bool streams = streams_output<kType>(args);
  for_channel_chunks(args, unit, units,
                     [&](const GroupNormChunk& at, long long channel) __attribute__((always_inline)) {
                       normalise_line<kType, kSilu>(args, at, channel, streams, 0);
                     });
  if (streams) stream_fence();
}
// All of a group, whose elements stay in the second level of cache, while the next one's come.
template <DType kType, bool kSilu>
void normalise_groups(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const bool streams = streams_output<kType>(args);
  const long long channels = args.channels / args.groups, groups = args.images * args.groups;
  for_share(groups, unit, units, [&](long long index) {
    const Quotient group = divided_by(index, args.groups);
    const auto each = [&](auto&& body) __attribute__((always_inline)) {
      for (long long c = 0; c < channels; ++c) {
        for (long long chunk = 0; chunk < args.chunks; ++chunk) {
          body(group_norm_chunk(args, group.whole * args.chunks + chunk), group.rest * channels + c);
        }
      }
    };
    each([&](const GroupNormChunk& at, long long channel)
             __attribute__((always_inline)) { find_moments_of<kType>(args, at, channel); });
    merge_moments_of(args, group);
    const Quotient next = divided_by(index + 1 < groups ? index + 1 : index, args.groups);
    const long long ahead = line_start(args, args.x, next.whole, next.rest * channels) -
                            line_start(args, args.x, group.whole, group.rest * channels);
    each([&](const GroupNormChunk& at, long long channel)
             __attribute__((always_inline)) { normalise_line<kType, kSilu>(args, at, channel, streams, ahead); });
  });
  if (streams) stream_fence();
}
// In loops that ask for no activation.
template <DType kType, bool kSilu>
void normalise(const GroupNormArgs& args, bool last, unsigned unit, unsigned units) {
  last ? normalise_columns<kType, kSilu>(args, unit, units) : normalise_lines<kType, kSilu>(args, unit, units);
}

template <GroupNormConfig kConfig>
void group_norm_cpu(const GroupNormArgs& args, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.dtype;
  const bool last = kType == DType::kNone ? args.channels_last : kConfig.channels_last;
  switch (args.step) {
    case GroupNormStep::kMoments:
      return last ? find_column_moments<kType>(args, unit, units) : find_line_moments<kType>(args, unit, units);
    case GroupNormStep::kGroups: return merge_group_moments(args, unit, units);
    case GroupNormStep::kWhole:
      return args.activation == Activation::kSilu ? normalise_groups<kType, true>(args, unit, units)
                                                  : normalise_groups<kType, false>(args, unit, units);
    default:
      return args.activation == Activation::kSilu ? normalise<kType, true>(args, last, unit, units)
                                                  : normalise<kType, false>(args, last, unit, units);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
