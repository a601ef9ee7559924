// SPDX-License-Identifier: MIT
// group_norm_gpu of groups that a cluster's shared memory holds, in CUDA for sm_90. A cluster has a slab: neighbouring groups of an image. Each
// thread copies pieces of it to slots of its own, which nobody else reads, so x comes once, and one launch does it all.
#pragma once

#include "group_norm/group_norm_slot_shares.cuh"
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/remote_store.cuh"

namespace tilewright {

// Moments that each block has found of the slab's groups, once they have come from all. kExchanges: the kernel has others behind it.
template <int kBlocks, int kExchanges = 1>
struct SlabExchange {
  __device__ __forceinline__ static sm90::Barrier& landed() { return group_slot_shared().landed[0]; }
  // By all threads of all blocks. Nobody sends before all have begun.
  __device__ __forceinline__ SlabExchange() {
    if constexpr (kBlocks > 1) {
      if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < kExchanges; ++i) sm90::init(group_slot_shared().landed[i], 1);
        sm90::fence_barrier_init();
      }
      sm90::arrive_cluster();
    }
  }
  // `mine` is group t's in thread t.
  __device__ __forceinline__ void share(const Moments& mine, int groups) {
    const auto me = static_cast<int>(threadIdx.x);
    GroupFound* const found = group_slot_shared().found;
    const GroupFound sent{mine, 0};
    if constexpr (kBlocks == 1) {
      if (me < groups) found[me] = sent;
      __syncthreads();
    } else {
      sm90::wait_cluster();
      if (me == 0) sm90::arrive_expect_bytes(landed(), static_cast<unsigned>(kBlocks * groups) * sizeof(GroupFound));
      GroupFound* const place = found + sm90::block_in_cluster() * kGroupSlotGroups + static_cast<unsigned>(me);
      if (me < groups) {
#pragma unroll
        for (unsigned block = 0; block < kBlocks; ++block) sm90::store_remote(place, landed(), block, sent);
      }
      sm90::wait(landed(), 0);
    }
  }
  // Of all blocks' parts of a group.
  __device__ __forceinline__ static Moments joined_parts(int group) {
    const GroupFound* const found = group_slot_shared().found + group;
    Moments part[kBlocks], all{0, 0, 0};
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) part[block] = found[block * kGroupSlotGroups].of;
    // Means about the first one: of equal means the mean is that mean.
#pragma unroll
    for (const Moments& of : part) {
      all.mean = __fmaf_rn(of.count, __fadd_rn(of.mean, -part[0].mean), all.mean);
      all.count = __fadd_rn(all.count, of.count);
    }
    all.mean = __fmaf_rn(all.mean, reciprocal_near_one(all.count), part[0].mean);
#pragma unroll
    for (const Moments& of : part) {
      const float apart = __fadd_rn(of.mean, -all.mean);
      all.squares = __fadd_rn(all.squares, __fmaf_rn(__fmul_rn(apart, apart), of.count, of.squares));
    }
    return all;
  }
};

template <GroupNormConfig kConfig, class Share>
__device__ __forceinline__ void normalise_share(const GroupNormArgs& args) {
  const auto me = static_cast<int>(threadIdx.x);
  SlabExchange<kConfig.cluster> exchange;
  const GroupNormSlab slab(args, kConfig.cluster);
  const Share share(args, slab);
  ChannelFactors* const factors = group_slot_factors<kConfig>();
  const GroupSlots<kConfig> slots(args,
                                  reinterpret_cast<unsigned char*>(factors) + group_slot_factor_bytes(args.width));

  // All is asked for at once, a few copies a group, so that moments of the first ones are found while others come.
  using Walk = typename Share::Walk;
  slots.ask_all(Walk(share, args.x));
#pragma unroll 1
  for (int i = me; i < slab.channels; i += kConfig.threads)
    factors[i] = {column_element(args.weight, slab.channel + i, 1), column_element(args.bias, slab.channel + i, 0)};

  exchange.share(share.moments(slots), slab.groups);

  // Weight and bias become what x is multiplied by, and what is added then.
#pragma unroll 1
  for (int i = me; i < slab.channels; i += kConfig.threads) {
    const Moments all =
        exchange.joined_parts(static_cast<int>(divided(static_cast<unsigned>(i), args.slots.group_channels)));
    const float inverse = inverse_root(__fmaf_rn(all.squares, reciprocal_near_one(all.count), args.eps));
    const float factor = __fmul_rn(inverse, factors[i].factor);
    factors[i] = {factor, __fmaf_rn(-all.mean, factor, factors[i].shift)};
  }
  __syncthreads();

  const typename Share::Factors by(share, factors);
  slots.each(Walk(share, args.out), [&](int i, const Walk& to) {
    Piece p;
    slots.take(i, p);
    by.apply(to, p);
    if (args.activation == Activation::kSilu) silu_piece(p);
    store_piece<kConfig.dtype, true>(to.place, args.dtype, 0, kRowPiece, p);
  });
}

template <GroupNormConfig kConfig>
__device__ __forceinline__ void normalise_slots(const GroupNormArgs& args) {
  if constexpr (kConfig.channels_last) {
    normalise_share<kConfig, ColumnShare<kConfig>>(args);
  } else {
    normalise_share<kConfig, LineShare<kConfig>>(args);
  }
}

}  // namespace tilewright
