// SPDX-License-Identifier: MIT
// group_norm_backward_gpu of groups whose x and dy a cluster's shared memory holds, in CUDA for sm_90: as group_norm_slots.cuh, and blocks exchange
// sums of channels, too. x and dy come once; one launch writes x's gradient, a second adds up those of weight and bias over images.
#pragma once

#include "group_norm/group_norm_slots.cuh"
#include "group_norm_backward/group_norm_backward_sums.cuh"

namespace tilewright {

// Blocks' sums of the slab's channels, [blocks, channels], once they have come from all.
template <GroupNormConfig kConfig>
__device__ __forceinline__ void share_channel_sums(const GroupNormSlab& slab, ChannelSums* sums, long long width) {
  constexpr int kBlocks = kConfig.cluster;
  __syncthreads();
  if constexpr (kBlocks > 1) {
    const auto me = static_cast<int>(threadIdx.x);
    sm90::Barrier& landed = group_slot_shared().landed[1];
    if (me == 0)
      sm90::arrive_expect_bytes(landed, static_cast<unsigned>((kBlocks - 1) * slab.channels) * sizeof(ChannelSums));
    ChannelSums* const mine = sums + slab.rank * width;
#pragma unroll 1
    for (int channel = me; channel < slab.channels; channel += kConfig.threads) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        if (block != slab.rank) sm90::store_remote(mine + channel, landed, static_cast<unsigned>(block), mine[channel]);
      }
    }
    sm90::wait(landed, 0);
  }
}

// What is the same of all elements of a group, for its channels; by a warp each. One block of a cluster writes sums for weight and bias.
template <GroupNormConfig kConfig>
__device__ __forceinline__ void find_slope_factors(const GroupNormArgs& args, const GroupNormSlab& slab,
                                                   const GroupGradientShared& shared) {
  const auto me = static_cast<int>(threadIdx.x), lane = me % kRowLanes;
  const auto channels = static_cast<int>(args.slots.group_channels.by);
  const bool writes = slab.rank == 0 && (args.dweight.data != nullptr || args.dbias.data != nullptr);
  float* const parts = args.parts + (slab.image * args.channels + slab.channel) * 2;
#pragma unroll 1
  for (int group = me / kRowLanes; group < slab.groups; group += kConfig.threads / kRowLanes) {
    const int begin = group * channels;
    float sum[2] = {};
#pragma unroll 1
    for (int channel = begin + lane; channel < begin + channels; channel += kRowLanes) {
      ChannelSums all{0, 0};
#pragma unroll
      for (int block = 0; block < kConfig.cluster; ++block) {
        const ChannelSums part = shared.sums[block * args.width + channel];
        all = {__fadd_rn(all.gradient, part.gradient), __fadd_rn(all.product, part.product)};
      }
      const GroupNormScale by = shared.scales[channel];
      all.product = __fmul_rn(all.product, by.inverse);
      sum[0] = __fmaf_rn(by.weight, all.gradient, sum[0]), sum[1] = __fmaf_rn(by.weight, all.product, sum[1]);
      if (writes) parts[channel * 2] = all.gradient, parts[channel * 2 + 1] = all.product;
    }
    reduce_threads<kRowLanes>(sum, sum_of);
    const float one = reciprocal_near_one(static_cast<float>(channels) * static_cast<float>(args.positions));
    const float mean = __fmul_rn(sum[0], one), along = __fmul_rn(sum[1], one);
#pragma unroll 1
    for (int channel = begin + lane; channel < begin + channels; channel += kRowLanes) {
      const GroupNormScale by = shared.scales[channel];
      shared.slopes[channel] = {__fmul_rn(by.inverse, by.weight), -__fmul_rn(__fmul_rn(by.inverse, along), by.inverse),
                                -__fmul_rn(by.inverse, mean), 0};
    }
  }
  __syncthreads();
}

template <GroupNormConfig kConfig, class Share, class Sums>
__device__ __forceinline__ void find_share_gradient(const GroupNormArgs& args) {
  const auto me = static_cast<int>(threadIdx.x);
  SlabExchange<kConfig.cluster, 2> exchange;
  const GroupNormSlab slab(args, kConfig.cluster);
  const Share share(args, slab);
  const GroupGradientShared shared(args, kConfig);
  using Slots = GroupSlots<kConfig, kGroupSlotCopies>;  // of x, behind which those of dy are asked for
  const Slots xs(args, shared.slots);
  const GroupSlots<kConfig> dys(args, shared.slots + args.slots.turns * Slots::kTurnBytes);

  // All of x is asked for first: its moments are found while dy comes.
  using Walk = typename Share::Walk;
  xs.ask_all(Walk(share, args.x));
  dys.ask_all(Walk(share, args.dy));
#pragma unroll 1
  for (int i = me; i < slab.channels; i += kConfig.threads)
    shared.scales[i] = {0, 0, column_element(args.weight, slab.channel + i, 1),
                        column_element(args.bias, slab.channel + i, 0)};

  exchange.share(share.moments(xs), slab.groups);
#pragma unroll 1
  for (int i = me; i < slab.channels; i += kConfig.threads) {
    const Moments all =
        exchange.joined_parts(static_cast<int>(divided(static_cast<unsigned>(i), args.slots.group_channels)));
    shared.scales[i].mean = all.mean;
    shared.scales[i].inverse = inverse_root(__fmaf_rn(all.squares, reciprocal_near_one(all.count), args.eps));
  }
  __syncthreads();

  const Sums sums(share, shared);
  sums.find(xs, dys, shared.sums + slab.rank * args.width);
  share_channel_sums<kConfig>(slab, shared.sums, args.width);
  find_slope_factors<kConfig>(args, slab, shared);

  const typename Sums::Slopes slopes(sums);
  xs.each(Walk(share, args.out), [&](int i, const Walk& to) {
    Piece x, dy;
    xs.take(i, x), dys.take(i, dy);
    slopes.apply(to, x, dy);
    store_piece<kConfig.dtype, true>(to.place, args.dtype, 0, kRowPiece, x);
  });
}

template <GroupNormConfig kConfig>
__device__ __forceinline__ void group_norm_backward_slots(const GroupNormArgs& args) {
  if constexpr (kConfig.channels_last) {
    find_share_gradient<kConfig, ColumnShare<kConfig>, ColumnSums<kConfig>>(args);
  } else {
    find_share_gradient<kConfig, LineShare<kConfig>, LineSums<kConfig>>(args);
  }
}

}  // namespace tilewright
