// SPDX-License-Identifier: MIT
// group_norm_backward_gpu: moments as group_norm finds them; then x and dy are read for the sums of each channel's part of a chunk, of which
// the gradients of weight and bias are made and the means of groups, and again for x's gradient; or once, where a cluster keeps a group.
// Typed by its config, or at run time.
#pragma once

#include "group_norm/group_norm_gpu.cuh"
#include "group_norm_backward/silu_slope_gpu.cuh"
#if !defined(__AMDGCN__)
#include "group_norm_backward/group_norm_backward_slots.cuh"
#endif

namespace tilewright {

// A normalised element, and the gradient of what weight and bias made of it.
struct NormalisedGradient {
  float normalised, gradient;
};
__device__ __forceinline__ NormalisedGradient normalised_gradient(const GroupNormArgs& args, const GroupNormScale& by,
                                                                  float x, float dy) {
  const float normalised = __fmul_rn(__fadd_rn(x, -by.mean), by.inverse);
  if (args.activation != Activation::kSilu) return {normalised, dy};
  const float y = __fmaf_rn(normalised, by.weight, by.bias);
  return {normalised, __fmul_rn(dy, silu_slope(y))};
}

template <GroupNormConfig kConfig, bool kLast>
__device__ __forceinline__ void find_sums(const GroupNormArgs& args) {
  for_tiles<kConfig, kLast>(args, [&](const GroupNormTile<kConfig, kLast>& tile) {
    constexpr int kSums = kLast ? kRowPiece : 1;
    float gradients[kSums] = {}, products[kSums] = {};
    const GroupNormScales<kLast> by(tile);
    tile.each({&tile.args.x, &tile.args.dy}, [&](int, int count, const Piece(&p)[2]) {
      const int there = anew(count);
      for_elements([&](int i) {
        const NormalisedGradient of = normalised_gradient(tile.args, by[i], p[0].v[i], p[1].v[i]);
        float &sum = gradients[kLast ? i : 0], &product = products[kLast ? i : 0];
        sum = tile.has(i, there) ? __fadd_rn(sum, of.gradient) : sum;
        product = tile.has(i, there) ? __fmaf_rn(of.gradient, of.normalised, product) : product;
      });
    });
    if constexpr (kLast) {
      sum_slab(gradients, products, [&](int i, const float(&both)[2]) {
        const long long behind = i - tile.across() * kRowPiece;
        if (tile.channel + behind >= tile.args.channels) return;
        float* const to = channel_part(anew(args), tile.at, tile.channel + behind);
        to[0] = both[0], to[1] = both[1];
      });
    } else {
      float both[2] = {gradients[0], products[0]};
      reduce_threads<kRowLanes>(both, sum_of);
      if (!tile.there || threadIdx.x % kRowLanes != 0) return;
      float* const to = channel_part(anew(args), tile.at, tile.channel);
      to[0] = both[0], to[1] = both[1];
    }
  });
}

// A block a group: means of what weights make of sums.
__device__ __forceinline__ void find_coefficients(const GroupNormArgs& args) {
  const long long channels = args.channels / args.groups, parts = channels * args.chunks;
#pragma unroll 1
  for (long long index = blockIdx.x; index < args.images * args.groups; index += args.grid) {
    const Quotient group = divided_by(index, args.groups);
    float sum[2] = {};
#pragma unroll 1
    for (long long part = threadIdx.x; part < parts; part += kGroupNormThreads) {
      const Quotient of = divided_by(part, channels);
      const long long channel = group.rest * channels + of.rest;
      const float* const from =
          channel_part(args, group_norm_chunk(args, group.whole * args.chunks + of.whole), channel);
      const float weight = column_element(args.weight, channel, 1);
      sum[0] = __fmaf_rn(weight, from[0], sum[0]), sum[1] = __fmaf_rn(weight, from[1], sum[1]);
    }
    reduce_threads<kGroupNormThreads>(sum, sum_of);
    const auto n = static_cast<float>(channels * args.positions);
    const float mean = sum[0] / n, along = sum[1] / n;
#pragma unroll 1
    for (long long i = threadIdx.x; i < channels; i += kGroupNormThreads) {
      float* const to = channel_floats(args, group.whole, group.rest * channels + i);
      to[4] = mean, to[5] = along;
    }
  }
}

// 32 lanes a channel: parts of all images.
__device__ __forceinline__ void sum_channels(const GroupNormArgs& args) {
  constexpr int kChannels = kGroupNormThreads / kRowLanes;
#pragma unroll 1
  for (long long first = static_cast<long long>(blockIdx.x) * kChannels; first < args.channels;
       first += args.grid * kChannels) {
    const long long channel = first + threadIdx.x / kRowLanes;
    const bool there = channel < args.channels;
    const float* const parts = args.parts + (there ? channel : 0) * 2;
    float sum[2] = {};
#pragma unroll 1
    for (long long part = threadIdx.x % kRowLanes; part < args.images * args.chunks; part += kRowLanes) {
      const float* const from = parts + part * args.channels * 2;
      sum[0] = __fadd_rn(sum[0], from[0]), sum[1] = __fadd_rn(sum[1], from[1]);
    }
    reduce_threads<kRowLanes>(sum, sum_of);
    if (!there || threadIdx.x % kRowLanes != 0) continue;
    const auto store = [&](const RowSums& to, float value) {
      Piece one;
      for_elements([&](int i) { one.v[i] = value; });
      if (to.data != nullptr) store_piece<DType::kNone>(static_cast<char*>(to.data), to.dtype, channel, 1, one);
    };
    store(args.dbias, sum[0]), store(args.dweight, sum[1]);
  }
}

template <GroupNormConfig kConfig, bool kLast>
__device__ __forceinline__ void find_gradient(const GroupNormArgs& args) {
  for_tiles<kConfig, kLast>(args, [&](const GroupNormTile<kConfig, kLast>& tile) {
    const GroupNormScales<kLast> by(tile);
    float mean[kLast ? kRowPiece : 1], along[kLast ? kRowPiece : 1];
#pragma unroll
    for (int i = 0; i < (kLast ? kRowPiece : 1); ++i) {
      const long long channel = tile.channel + i, last = tile.args.channels - 1;
      const float* const of = channel_floats(tile.args, tile.at.image, channel < last ? channel : last);
      mean[i] = of[4], along[i] = of[5];
    }
    tile.each({&tile.args.x, &tile.args.dy}, [&](int position, int count, Piece(&p)[2]) {
      for_elements([&](int i) {
        const NormalisedGradient of = normalised_gradient(tile.args, by[i], p[0].v[i], p[1].v[i]);
        const float g = __fmaf_rn(of.gradient, by[i].weight, -mean[kLast ? i : 0]);
        p[0].v[i] = __fmul_rn(__fmaf_rn(of.normalised, -along[kLast ? i : 0], g), by[i].inverse);
      });
      tile.store(tile.args.out, position, count, p[0]);
    });
  });
}

template <GroupNormConfig kConfig, bool kLast>
__device__ __forceinline__ void group_norm_backward_step(const GroupNormArgs& args) {
  switch (args.step) {
    case GroupNormStep::kMoments:
      if constexpr (kLast) return find_column_moments<kConfig>(args);
      return find_line_moments<kConfig>(args);
    case GroupNormStep::kSums: return find_sums<kConfig, kLast>(args);
    default: return find_gradient<kConfig, kLast>(args);
  }
}

template <GroupNormConfig kConfig>
__device__ __forceinline__ void group_norm_backward_steps(const GroupNormArgs& args) {
  constexpr bool kTyped = kConfig.dtype != DType::kNone;
  begin_step(args, GroupNormStep::kMoments);
  switch (args.step) {
    case GroupNormStep::kGroups: return merge_group_moments(args);
    case GroupNormStep::kCoefficients: return find_coefficients(args);
    case GroupNormStep::kColumns: return sum_channels(args);
    default: break;
  }
  const bool last = kTyped ? kConfig.channels_last : args.channels_last;
  if constexpr (!kTyped || kConfig.channels_last) {
    if (last) return group_norm_backward_step<kConfig, true>(args);
  }
  if constexpr (!kTyped || !kConfig.channels_last) {
    if (!last) return group_norm_backward_step<kConfig, false>(args);
  }
}

template <GroupNormConfig kConfig>
__device__ __forceinline__ void group_norm_backward_gpu(const GroupNormArgs& args) {
  if constexpr (kConfig.cluster == 0) {
    group_norm_backward_steps<kConfig>(args);
  } else {
#if !defined(__AMDGCN__)
    begin_step(args, GroupNormStep::kWhole);
    if (args.step == GroupNormStep::kColumns) return sum_channels(args);
    group_norm_backward_slots<kConfig>(args);
#endif
  }
}

}  // namespace tilewright
