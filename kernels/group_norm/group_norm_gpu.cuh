// SPDX-License-Identifier: MIT
// group_norm_gpu: x is read for the moments of each channel's part of a chunk, which are merged to those of groups, and again for the
// output; or once, where a cluster keeps a group. Typed by its config, or at run time.
#pragma once

#include "group_norm/group_norm_tile_gpu.cuh"
#include "tile/gpu/row_moments.cuh"
#if !defined(__AMDGCN__)
#include "group_norm/group_norm_slots.cuh"
#endif

namespace tilewright {

__device__ __forceinline__ void store_moments(float* to, float about, const float (&sum)[2], long long count) {
  const RowMoments found = row_moments(about, sum, static_cast<float>(count));
  to[0] = found.mean, to[1] = found.variance;
}

// Differences from the part's first element lose nothing to a mean that is far above them.
template <GroupNormConfig kConfig>
__device__ __forceinline__ void find_line_moments(const GroupNormArgs& args) {
  for_tiles<kConfig, false>(args, [&](const GroupNormTile<kConfig, false>& tile) {
    const float about = load_element<kConfig.dtype>(tile.place(tile.args.x, 0), tile.args.dtype);
    float sum[2] = {};  // of differences, and of their squares
    tile.each({&tile.args.x}, [&](int, int count, const Piece(&p)[1]) {
      const int there = anew(count);
      for_elements([&](int i) {
        const float d = tile.has(i, there) ? __fadd_rn(p[0].v[i], -about) : 0;
        sum[0] = __fadd_rn(sum[0], d), sum[1] = __fmaf_rn(d, d, sum[1]);
      });
    });
    reduce_threads<kRowLanes>(sum, sum_of);
    if (tile.there && threadIdx.x % kRowLanes == 0)
      store_moments(channel_part(anew(args), tile.at, tile.channel), about, sum, tile.at.count);
  });
}
template <GroupNormConfig kConfig>
__device__ __forceinline__ void find_column_moments(const GroupNormArgs& args) {
  for_tiles<kConfig, true>(args, [&](const GroupNormTile<kConfig, true>& tile) {
    Piece about;
    tile.load(tile.args.x, 0, tile.count_at(0), about);
    float sum[kRowPiece] = {}, squares[kRowPiece] = {};
    tile.each({&tile.args.x}, [&](int, int count, const Piece(&p)[1]) {
      const int there = anew(count);
      for_elements([&](int i) {
        const float d = tile.has(i, there) ? __fadd_rn(p[0].v[i], -about.v[i]) : 0;
        sum[i] = __fadd_rn(sum[i], d), squares[i] = __fmaf_rn(d, d, squares[i]);
      });
    });
    sum_slab(sum, squares, [&](int i, const float(&both)[2]) {
      const long long behind = i - tile.across() * kRowPiece;
      if (tile.channel + behind >= tile.args.channels) return;
      const char* const first = tile.place(tile.args.x, 0) + behind * group_norm_bytes<kConfig>(tile.args);
      store_moments(channel_part(anew(args), tile.at, tile.channel + behind),
                    load_element<kConfig.dtype>(first, tile.args.dtype), both, tile.at.count);
    });
  });
}

// A block a group: their mean, and then what lies about it. Each channel of the group has these, beside its weight and bias.
__device__ __forceinline__ void merge_group_moments(const GroupNormArgs& given) {
  const GroupNormArgs& args = given;
  const long long channels = args.channels / args.groups, parts = channels * args.chunks;
#pragma unroll 1
  for (long long index = blockIdx.x; index < args.images * args.groups; index += args.grid) {
    const Quotient group = divided_by(index, args.groups);
    // This thread's parts: some stay in registers, for which all are asked at once.
    struct Part {
      float count, mean, variance;
    };
    const auto part_at = [&](long long part) -> Part {
      const GroupNormArgs& now = anew(given);
      const Quotient of = divided_by(part, now.channels / now.groups);
      const GroupNormChunk at = group_norm_chunk(now, group.whole * now.chunks + of.whole);
      const float* const moments = channel_part(now, at, group.rest * (now.channels / now.groups) + of.rest);
      return {static_cast<float>(at.count), moments[0], moments[1]};
    };
    constexpr int kHeld = 3;
    Part held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const long long part = threadIdx.x + i * kGroupNormThreads;
      held[i] = part_at(part < parts ? part : 0);
      if (part >= parts) held[i] = {};
    }
    // body(elements, mean, variance) of them.
    const auto each = [&](auto&& body) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (held[i].count > 0) body(held[i].count, held[i].mean, held[i].variance);
      }
#pragma unroll 1
      for (long long part = threadIdx.x + kHeld * kGroupNormThreads; part < parts; part += kGroupNormThreads) {
        const Part its = part_at(part);
        body(its.count, its.mean, its.variance);
      }
    };
    const long long first_channel = group.rest * channels;
    const auto with_weights = [&](long long i) -> GroupNormScale {
      const GroupNormArgs& now = anew(given);
      const long long channel = first_channel + (i < channels ? i : 0);
      return {0, 0, column_element(now.weight, channel, 1), column_element(now.bias, channel, 0)};
    };
    const GroupNormScale mine = with_weights(threadIdx.x);
    const auto n = static_cast<float>(channels * args.positions);
    const float about = *channel_part(args, group_norm_chunk(args, group.whole * args.chunks), first_channel);
    float first[1] = {};
    each([&](float count, float mean, float) { first[0] = __fmaf_rn(count, __fadd_rn(mean, -about), first[0]); });
    reduce_threads<kGroupNormThreads>(first, sum_of);
    const float mean = __fadd_rn(about, first[0] / n);

    float sum[2] = {};  // of differences from there, and of all squares
    each([&](float count, float of, float variance) {
      const float d = __fadd_rn(of, -mean);
      sum[0] = __fmaf_rn(count, d, sum[0]), sum[1] = __fmaf_rn(count, __fmaf_rn(d, d, variance), sum[1]);
    });
    reduce_threads<kGroupNormThreads>(sum, sum_of);
    const RowMoments found = row_moments(mean, sum, n);
    const float inverse = 1 / square_root(__fadd_rn(found.variance, args.eps));
#pragma unroll 1
    for (long long i = threadIdx.x; i < channels; i += kGroupNormThreads) {
      const GroupNormScale of = i < kGroupNormThreads ? mine : with_weights(i);
      store_vector4(channel_floats(args, group.whole, first_channel + i),
                    Vector4<float>{found.mean, inverse, of.weight, of.bias});
    }
  }
}

template <GroupNormConfig kConfig, bool kLast>
__device__ __forceinline__ void normalise(const GroupNormArgs& args) {
  for_tiles<kConfig, kLast>(args, [&](const GroupNormTile<kConfig, kLast>& tile) {
    const GroupNormScales<kLast> by(tile);
    tile.each({&tile.args.x}, [&](int position, int count, Piece(&p)[1]) {
      for_elements([&](int i) {
        const float factor = __fmul_rn(by[i].inverse, by[i].weight);
        p[0].v[i] = __fmaf_rn(__fadd_rn(p[0].v[i], -by[i].mean), factor, by[i].bias);
      });
      if (tile.args.activation == Activation::kSilu) silu_piece(p[0]);
      tile.store(tile.args.out, position, count, p[0]);
    });
  });
}

template <GroupNormConfig kConfig>
__device__ __forceinline__ void group_norm_steps(const GroupNormArgs& args) {
  constexpr bool kTyped = kConfig.dtype != DType::kNone;
  const bool last = kTyped ? kConfig.channels_last : args.channels_last;
  begin_step(args, GroupNormStep::kMoments);
  if (args.step == GroupNormStep::kGroups) return merge_group_moments(args);
  const bool finds = args.step == GroupNormStep::kMoments;
  if constexpr (!kTyped || kConfig.channels_last) {
    if (last) return finds ? find_column_moments<kConfig>(args) : normalise<kConfig, true>(args);
  }
  if constexpr (!kTyped || !kConfig.channels_last) {
    if (!last) return finds ? find_line_moments<kConfig>(args) : normalise<kConfig, false>(args);
  }
}

template <GroupNormConfig kConfig>
__device__ __forceinline__ void group_norm_gpu(const GroupNormArgs& args) {
  if constexpr (kConfig.cluster == 0) {
    group_norm_steps<kConfig>(args);
  } else {
#if !defined(__AMDGCN__)
    normalise_slots<kConfig>(args);
#endif
  }
}

}  // namespace tilewright
