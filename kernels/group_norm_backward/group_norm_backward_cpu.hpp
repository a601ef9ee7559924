// SPDX-License-Identifier: MIT
// group_norm_backward_cpu: moments as group_norm finds them; then x and dy are read for the sums of each channel's part of a chunk, of which
// the gradients of weight and bias are made and the means of groups, and again for x's gradient. Typed by its config, or at run time.
#pragma once

#include "group_norm/group_norm_cpu.hpp"
#include "group_norm_backward/group_norm_backward_columns_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A channel's part of a chunk in x and dy.
struct GroupNormLines {
  const char *x, *dy;
  DType dtype;

  TILEWRIGHT_INLINE GroupNormLines(const GroupNormArgs& args, const GroupNormChunk& at, long long channel)
      : dtype(args.dtype) {
    const long long bytes = at.begin * dtype_bits(dtype) / 8;
    x = line_start(args, args.x, at.image, channel) + bytes, dy = line_start(args, args.dy, at.image, channel) + bytes;
  }
  template <DType kType, bool kSilu, class Piece>
  TILEWRIGHT_INLINE GroupNormSlope at(const GroupNormScale<F32x16>& by, Piece piece) const {
    return group_norm_slope<kSilu>(by, load_piece<kType>(x, dtype, piece), load_piece<kType>(dy, dtype, piece));
  }
};

template <DType kType, bool kSilu>
void find_line_sums(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_channel_chunks(args, unit, units, [&](const GroupNormChunk& at, long long channel) {
    const GroupNormLines from(args, at, channel);
    const float* const group = group_of(args, at.image, channel);
    const GroupNormScale<F32x16> by = splat(group_norm_scale(args, group, channel));
    float sum[2];  // of gradients, and of their products with how far elements are off the mean
    sum_row(at.count, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
      const GroupNormSlope of = from.template at<kType, kSilu>(by, piece);
      const F32x16 gradient = within_row(of.gradient, piece);
      part[0] = part[0] + gradient, part[1] = fma(gradient, within_row(of.off, piece), part[1]);
    });
    float* const to = channel_part(args, at, channel);
    to[0] = sum[0], to[1] = sum[1] * group[1];
  });
}

inline void find_coefficients(const GroupNormArgs& args, unsigned unit, unsigned units) {
  const long long channels = args.channels / args.groups;
  for_share(args.images * args.groups, unit, units, [&](long long index) {
    const Quotient group = divided_by(index, args.groups);
    double gradient = 0, along = 0;
    for (long long chunk = 0; chunk < args.chunks; ++chunk) {
      const GroupNormChunk at = group_norm_chunk(args, group.whole * args.chunks + chunk);
      for (long long c = group.rest * channels; c < (group.rest + 1) * channels; ++c) {
        const float* const from = channel_part(args, at, c);
        const double weight = static_cast<double>(column_element(args.weight, c, 1));
        gradient += weight * static_cast<double>(from[0]), along += weight * static_cast<double>(from[1]);
      }
    }
    const auto n = static_cast<double>(channels * args.positions);
    float* const to = group_part(args, group.whole, group.rest);
    to[2] = static_cast<float>(gradient / n), to[3] = static_cast<float>(along / n);
  });
}
inline void sum_channels(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_share(args.channels, unit, units, [&](long long channel) {
    double gradient = 0, product = 0;
    for (long long part = 0; part < args.images * args.chunks; ++part) {
      const float* const from = args.parts + (part * args.channels + channel) * 2;
      gradient += static_cast<double>(from[0]), product += static_cast<double>(from[1]);
    }
    const auto store = [channel](const RowSums& to, double value) {
      if (to.data == nullptr) return;
      char* const place = static_cast<char*>(to.data) + channel * dtype_bits(to.dtype) / 8;
      const auto one = static_cast<float>(value);
      with_float<DType::kNone>(to.dtype, [&](auto type) { store_one<type.value>(place, one); });
    };
    store(args.dbias, gradient), store(args.dweight, product);
  });
}

template <DType kType, bool kSilu>
void find_line_gradient(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_channel_chunks(args, unit, units, [&](const GroupNormChunk& at, long long channel) {
    const GroupNormLines from(args, at, channel);
    char* const dx = line_start(args, args.out, at.image, channel) + at.begin * dtype_bits(args.dtype) / 8;
    const float* const group = group_of(args, at.image, channel);
    const GroupNormScale<F32x16> by = splat(group_norm_scale(args, group, channel));
    const GroupNormMeans<float> of = group_norm_means(group);
    const GroupNormMeans<F32x16> means{F32x16::splat(of.less), F32x16::splat(of.along)};
    for_pieces(at.count, [&](auto piece) __attribute__((always_inline)) {
      store_piece<kType>(dx, args.dtype, piece,
                         group_norm_gradient(by, means, from.template at<kType, kSilu>(by, piece)));
    });
  });
}
// In loops that ask for no activation.
template <DType kType, bool kSilu>
void sums_or_gradient(const GroupNormArgs& args, bool last, unsigned unit, unsigned units) {
  if (args.step == GroupNormStep::kSums) {
    return last ? find_column_sums<kType, kSilu>(args, unit, units) : find_line_sums<kType, kSilu>(args, unit, units);
  }
  last ? find_column_gradient<kType, kSilu>(args, unit, units) : find_line_gradient<kType, kSilu>(args, unit, units);
}

template <GroupNormConfig kConfig>
void group_norm_backward_cpu(const GroupNormArgs& args, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.dtype;
  const bool last = kType == DType::kNone ? args.channels_last : kConfig.channels_last;
  switch (args.step) {
    case GroupNormStep::kMoments:
      return last ? find_column_moments<kType>(args, unit, units) : find_line_moments<kType>(args, unit, units);
    case GroupNormStep::kGroups: return merge_group_moments(args, unit, units);
    case GroupNormStep::kCoefficients: return find_coefficients(args, unit, units);
    case GroupNormStep::kColumns: return sum_channels(args, unit, units);
    default:
      return args.activation == Activation::kSilu ? sums_or_gradient<kType, true>(args, last, unit, units)
                                                  : sums_or_gradient<kType, false>(args, last, unit, units);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
