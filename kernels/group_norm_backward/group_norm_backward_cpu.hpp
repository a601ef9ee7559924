// SPDX-License-Identifier: MIT
// group_norm_backward_cpu: moments as group_norm finds them; then x and dy are read for the sums of each channel's part of a chunk, of which
// the gradients of weight and bias are made and the means of groups, and again for x's gradient. Typed by its config, or at run time.
#pragma once

#include "act_and_mul_backward/activation_slope_cpu.hpp"
#include "group_norm/group_norm_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// What a channel's gradient is made with: the means of its group's gradient, and of that times normalised elements.
template <class Value>
struct GroupNormMeans {
  Value gradient, along;
};
// A normalised element, and the gradient of what weight and bias made of it.
struct NormalisedGradient {
  F32x16 normalised, gradient;
};
TILEWRIGHT_INLINE NormalisedGradient normalised_gradient(const GroupNormArgs& args, const GroupNormScale<F32x16>& by,
                                                         F32x16 x, F32x16 dy) {
  const F32x16 normalised = (x - by.mean) * by.inverse;
  if (args.activation != Activation::kSilu) return {normalised, dy};
  return {normalised, dy * silu_slope(fma(normalised, by.weight, by.bias), 1).slope};
}
TILEWRIGHT_INLINE F32x16 group_norm_gradient(const GroupNormScale<F32x16>& by, const GroupNormMeans<F32x16>& means,
                                             const NormalisedGradient& of) {
  const F32x16 g = fma(of.gradient, by.weight, F32x16::splat(0) - means.gradient);
  return (g - of.normalised * means.along) * by.inverse;
}
TILEWRIGHT_INLINE GroupNormMeans<float> group_norm_means(const GroupNormArgs& args, long long image,
                                                         long long channel) {
  const float* const of = group_part(args, image, channel / (args.channels / args.groups));
  return {of[2], of[3]};
}

template <DType kType>
void find_line_sums(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_channel_chunks(args, unit, units, [&](const GroupNormChunk& at, long long channel) {
    const long long bytes = at.begin * dtype_bits(args.dtype) / 8;
    const char *const x = line_start(args, args.x, at.image, channel) + bytes, *const dy =
                                                                                   line_start(args, args.dy, at.image,
                                                                                              channel) +
                                                                                   bytes;
    const GroupNormScale<F32x16> by = splat(group_norm_scale(args, at.image, channel));
    float sum[2];  // of gradients, and of their products with normalised elements
    sum_row(at.count, sum, [&](F32x16(&part)[2], auto piece) __attribute__((always_inline)) {
      const NormalisedGradient of = normalised_gradient(args, by, load_piece<kType>(x, args.dtype, piece),
                                                        load_piece<kType>(dy, args.dtype, piece));
      const F32x16 gradient = within_row(of.gradient, piece);
      part[0] = part[0] + gradient, part[1] = fma(gradient, within_row(of.normalised, piece), part[1]);
    });
    float* const to = channel_part(args, at, channel);
    to[0] = sum[0], to[1] = sum[1];
  });
}
template <DType kType>
void find_column_sums(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_slabs(args, unit, units, [&](const GroupNormChunk& at, auto first, auto vectors) {
    constexpr int kCount = vectors.value;
    GroupNormScale<F32x16> by[kCount];
    F32x16 sum[kCount], products[kCount];
    for (int v = 0; v < kCount; ++v) {
      by[v] = group_norm_scales(args, at.image, first.n + v * kVec, first.count);
      sum[v] = products[v] = F32x16::splat(0);
    }
    for (long long i = at.begin; i < at.begin + at.count; ++i) {
      const char *const x = line_start(args, args.x, at.image, i), *const dy = line_start(args, args.dy, at.image, i);
      fetch_position<kType, kCount>(x, args.x.line * dtype_bits(args.dtype) / 8, first);
      fetch_position<kType, kCount>(dy, args.dy.line * dtype_bits(args.dtype) / 8, first);
      unroll<kCount>([&](auto v) __attribute__((always_inline)) {
        const decltype(first) piece{first.n + v * kVec, first.count};
        const NormalisedGradient of = normalised_gradient(args, by[v], load_piece<kType>(x, args.dtype, piece),
                                                          load_piece<kType>(dy, args.dtype, piece));
        sum[v] = sum[v] + of.gradient, products[v] = fma(of.gradient, of.normalised, products[v]);
      });
    }
    for (int v = 0; v < kCount; ++v) {
      float sums[kVec], of_products[kVec];
      sum[v].store(sums), products[v].store(of_products);
      for (int i = 0; i < first.count; ++i) {
        float* const to = channel_part(args, at, first.n + v * kVec + i);
        to[0] = sums[i], to[1] = of_products[i];
      }
    }
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

template <DType kType>
void find_line_gradient(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_channel_chunks(args, unit, units, [&](const GroupNormChunk& at, long long channel) {
    const long long bytes = at.begin * dtype_bits(args.dtype) / 8;
    const char *const x = line_start(args, args.x, at.image, channel) + bytes, *const dy =
                                                                                   line_start(args, args.dy, at.image,
                                                                                              channel) +
                                                                                   bytes;
    char* const dx = line_start(args, args.out, at.image, channel) + bytes;
    const GroupNormScale<F32x16> by = splat(group_norm_scale(args, at.image, channel));
    const GroupNormMeans<float> of = group_norm_means(args, at.image, channel);
    const GroupNormMeans<F32x16> means{F32x16::splat(of.gradient), F32x16::splat(of.along)};
    for_pieces(at.count, [&](auto piece) __attribute__((always_inline)) {
      const NormalisedGradient found = normalised_gradient(args, by, load_piece<kType>(x, args.dtype, piece),
                                                           load_piece<kType>(dy, args.dtype, piece));
      store_piece<kType>(dx, args.dtype, piece, group_norm_gradient(by, means, found));
    });
  });
}
template <DType kType>
void find_column_gradient(const GroupNormArgs& args, unsigned unit, unsigned units) {
  for_slabs(args, unit, units, [&](const GroupNormChunk& at, auto first, auto vectors) {
    constexpr int kCount = vectors.value;
    GroupNormScale<F32x16> by[kCount];
    GroupNormMeans<F32x16> means[kCount];
    for (int v = 0; v < kCount; ++v) {
      by[v] = group_norm_scales(args, at.image, first.n + v * kVec, first.count);
      float gradient[kVec] = {}, along[kVec] = {};
      for (int i = 0; i < first.count; ++i) {
        const GroupNormMeans<float> of = group_norm_means(args, at.image, first.n + v * kVec + i);
        gradient[i] = of.gradient, along[i] = of.along;
      }
      means[v] = {F32x16::load(gradient), F32x16::load(along)};
    }
    for (long long i = at.begin; i < at.begin + at.count; ++i) {
      const char *const x = line_start(args, args.x, at.image, i), *const dy = line_start(args, args.dy, at.image, i);
      fetch_position<kType, kCount>(x, args.x.line * dtype_bits(args.dtype) / 8, first);
      fetch_position<kType, kCount>(dy, args.dy.line * dtype_bits(args.dtype) / 8, first);
      char* const dx = line_start(args, args.out, at.image, i);
      unroll<kCount>([&](auto v) __attribute__((always_inline)) {
        const decltype(first) piece{first.n + v * kVec, first.count};
        const NormalisedGradient found = normalised_gradient(args, by[v], load_piece<kType>(x, args.dtype, piece),
                                                             load_piece<kType>(dy, args.dtype, piece));
        store_piece<kType>(dx, args.dtype, piece, group_norm_gradient(by[v], means[v], found));
      });
    }
  });
}

template <GroupNormConfig kConfig>
void group_norm_backward_cpu(const GroupNormArgs& args, unsigned unit, unsigned units) {
  constexpr DType kType = kConfig.dtype;
  const bool last = kType == DType::kNone ? args.channels_last : kConfig.channels_last;
  switch (args.step) {
    case GroupNormStep::kMoments:
      return last ? find_column_moments<kType>(args, unit, units) : find_line_moments<kType>(args, unit, units);
    case GroupNormStep::kGroups: return merge_group_moments(args, unit, units);
    case GroupNormStep::kSums:
      return last ? find_column_sums<kType>(args, unit, units) : find_line_sums<kType>(args, unit, units);
    case GroupNormStep::kCoefficients: return find_coefficients(args, unit, units);
    case GroupNormStep::kColumns: return sum_channels(args, unit, units);
    default:
      return last ? find_column_gradient<kType>(args, unit, units) : find_line_gradient<kType>(args, unit, units);
  }
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
