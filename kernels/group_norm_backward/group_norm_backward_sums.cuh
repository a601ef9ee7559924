// SPDX-License-Identifier: MIT
// Sums of each channel of a slab in slots, by a block: of the gradients of what weight and bias made, and of their products with elements'
// differences from the mean. CUDA for sm_90.
#pragma once

#include "group_norm/group_norm_slot_shares.cuh"
#include "group_norm_backward/silu_slope_gpu.cuh"

namespace tilewright {

struct alignas(8) ChannelSums {
  float gradient, product;
};
static_assert(sizeof(ChannelSums) == kChannelSumBytes);
// What a gradient, its element's difference from the mean and 1 are multiplied by for x's gradient.
struct alignas(16) SlopeFactors {
  float gradient, difference, shift, unused;
};

// Where they stand in shared memory, behind what slots always have.
struct GroupGradientShared {
  GroupNormScale* scales;
  SlopeFactors* slopes;
  ChannelSums* sums;  // [blocks, width]
  unsigned char* slots;
  __device__ __forceinline__ GroupGradientShared(const GroupNormArgs& args, const GroupNormConfig& config) {
    unsigned char* const begin = dynamic_shared() + group_slot_shared_bytes(config.threads);
    const auto width = static_cast<int>(args.width);
    scales = reinterpret_cast<GroupNormScale*>(begin);
    slopes = reinterpret_cast<SlopeFactors*>(scales + width);
    sums = reinterpret_cast<ChannelSums*>(slopes + width);
    slots = begin + group_slot_gradient_bytes(width, config.cluster);
  }
};

// What a channel's elements are normalised by: the inverse deviation is in the factor.
struct ChannelScale {
  float mean, factor, bias;
  __device__ __forceinline__ ChannelScale() {}
  __device__ __forceinline__ explicit ChannelScale(const GroupNormScale& of)
      : mean(of.mean), factor(__fmul_rn(of.inverse, of.weight)), bias(of.bias) {}
};
// x becomes its difference from the mean, and dy the gradient of what weight and bias made of it. scale(element).
template <class Scale>
__device__ __forceinline__ void differ_piece(Activation activation, Piece& x, Piece& dy, Scale&& scale) {
  for_elements([&](int e) { x.v[e] = __fadd_rn(x.v[e], -scale(e).mean); });
  if (activation != Activation::kSilu) return;
  for_elements([&](int e) {
    const ChannelScale& by = scale(e);
    dy.v[e] = __fmul_rn(dy.v[e], silu_slope(__fmaf_rn(x.v[e], by.factor, by.bias)));
  });
}
template <class Factors>
__device__ __forceinline__ void apply_slopes(Piece& x, const Piece& dy, Factors&& factors) {
  for_elements([&](int e) {
    const SlopeFactors& by = factors(e);
    x.v[e] = __fmaf_rn(dy.v[e], by.gradient, __fmaf_rn(x.v[e], by.difference, by.shift));
  });
}

// Of so many lanes side by side, a power of two, in the first of them.
__device__ __forceinline__ ChannelSums sum_of_lanes(ChannelSums mine, unsigned lanes) {
  if (lanes == kRowLanes) {
    // Odd lanes add products, even ones gradients.
    const bool odd = threadIdx.x % 2 != 0;
    float sum = __fadd_rn(odd ? mine.product : mine.gradient, lane_xor(odd ? mine.gradient : mine.product, 1));
#pragma unroll
    for (unsigned distance = 2; distance < kRowLanes; distance *= 2) sum = __fadd_rn(sum, lane_xor(sum, distance));
    return {sum, lane_xor(sum, 1)};
  }
#pragma unroll 1
  for (unsigned distance = 1; distance < lanes; distance *= 2) {
    mine.gradient = __fadd_rn(mine.gradient, lane_xor(mine.gradient, distance));
    mine.product = __fadd_rn(mine.product, lane_xor(mine.product, distance));
  }
  return mine;
}

// Channels first: lanes side by side whose pieces are of one channel add theirs, and a warp a channel adds what they found.
template <GroupNormConfig kConfig>
struct LineSums {
  using Walk = typename LineShare<kConfig>::Walk;
  const LineShare<kConfig>& share;
  const GroupGradientShared& shared;
  __device__ __forceinline__ LineSums(const LineShare<kConfig>& its, const GroupGradientShared& of)
      : share(its), shared(of) {}

  __device__ __forceinline__ void differ(unsigned channel, Piece& x, Piece& dy) const {
    const ChannelScale by(shared.scales[channel]);
    differ_piece(share.args.activation, x, dy, [&](int) -> const ChannelScale& { return by; });
  }
  template <class XSlots, class DySlots>
  __device__ __forceinline__ void find(const XSlots& xs, const DySlots& dys, ChannelSums* found) const {
    auto* const units = reinterpret_cast<ChannelSums*>(group_slot_parts());
    const auto me = threadIdx.x;
    const unsigned bits = share.args.slots.lane_bits, lanes = 1u << bits;
    float sum[2] = {};
    Walk at(share, share.args.x);
    dys.each_turn_as_it_comes([&](int i) {
      const unsigned channel = at.channel;
      if (at.there()) {
        Piece x, dy;
        xs.take(i, x), dys.take(i, dy);
        differ(channel, x, dy);
        for_elements([&](int e) { sum[0] = __fadd_rn(sum[0], dy.v[e]), sum[1] = __fmaf_rn(dy.v[e], x.v[e], sum[1]); });
      }
      at.next();
      // Lanes meet where one of them goes on to another channel, or ends.
      ChannelSums part{0, 0};
      if (__any_sync(0xFFFFFFFFu, at.channel != channel || !at.there()) != 0) {
        part = sum_of_lanes({sum[0], sum[1]}, lanes);
        sum[0] = sum[1] = 0;
      }
      if (me % lanes == 0) units[(me + static_cast<unsigned>(i) * kConfig.threads) >> bits] = part;
    });
    __syncthreads();

    const unsigned of_line = share.args.line_pieces.by >> bits, first = (share.begin - me) >> bits,
                   behind = share.end >> bits;
#pragma unroll 1
    for (unsigned channel = me / kRowLanes; channel < static_cast<unsigned>(share.slab.channels);
         channel += kConfig.threads / kRowLanes) {
      const unsigned from = channel * of_line, to = from + of_line;
      const unsigned end = to < behind ? to : behind;
      sum[0] = sum[1] = 0;
#pragma unroll 1
      for (unsigned unit = (from > first ? from : first) + me % kRowLanes; unit < end; unit += kRowLanes) {
        const ChannelSums part = units[unit - first];
        sum[0] = __fadd_rn(sum[0], part.gradient), sum[1] = __fadd_rn(sum[1], part.product);
      }
      reduce_threads<kRowLanes>(sum, sum_of);
      if (me % kRowLanes == 0) found[channel] = {sum[0], sum[1]};
    }
  }
  struct Slopes {
    const LineSums& sums;
    __device__ __forceinline__ explicit Slopes(const LineSums& of) : sums(of) {}
    __device__ __forceinline__ void apply(const Walk& at, Piece& x, Piece& dy) const {
      sums.differ(at.channel, x, dy);
      const SlopeFactors by = sums.shared.slopes[at.channel];
      apply_slopes(x, dy, [&](int) -> const SlopeFactors& { return by; });
    }
  };
};

// Channels last: a thread adds those of its piece's channels, and a warp a piece adds threads', two channels at a time.
template <GroupNormConfig kConfig>
struct ColumnSums {
  using Walk = typename ColumnShare<kConfig>::Walk;
  const ColumnShare<kConfig>& share;
  const GroupGradientShared& shared;
  ChannelScale scale[kRowPiece];
  __device__ __forceinline__ ColumnSums(const ColumnShare<kConfig>& its, const GroupGradientShared& of)
      : share(its), shared(of) {
    for_elements([&](int e) { scale[e] = ChannelScale(shared.scales[share.piece * kRowPiece + e]); });
  }

  __device__ __forceinline__ void differ(Piece& x, Piece& dy) const {
    differ_piece(share.args.activation, x, dy, [&](int e) -> const ChannelScale& { return scale[e]; });
  }
  template <class XSlots, class DySlots>
  __device__ __forceinline__ void find(const XSlots& xs, const DySlots& dys, ChannelSums* found) const {
    float gradient[kRowPiece] = {}, product[kRowPiece] = {};
    dys.each_as_it_comes(Walk(share, share.args.x), [&](int i) {
      Piece x, dy;
      xs.take(i, x), dys.take(i, dy);
      differ(x, dy);
      for_elements([&](int e) {
        gradient[e] = __fadd_rn(gradient[e], dy.v[e]), product[e] = __fmaf_rn(dy.v[e], x.v[e], product[e]);
      });
    });

    auto* const parts = reinterpret_cast<float*>(group_slot_parts());
    const int warp = static_cast<int>(threadIdx.x) / kRowLanes, lane = static_cast<int>(threadIdx.x) % kRowLanes;
#pragma unroll
    for (int e = 0; e < kRowPiece; e += 2) {
      if (share.row < share.down)
        store_vector4(parts + (share.piece * share.down + share.row) * 4,
                      Vector4<float>{gradient[e], product[e], gradient[e + 1], product[e + 1]});
      __syncthreads();
#pragma unroll 1
      for (int piece = warp; piece < share.across; piece += kConfig.threads / kRowLanes) {
        float sum[4] = {};
#pragma unroll 1
        for (int row = lane; row < share.down; row += kRowLanes) {
          const Vector4<float> part = load_vector4(parts + (piece * share.down + row) * 4);
          sum[0] = __fadd_rn(sum[0], part.x), sum[1] = __fadd_rn(sum[1], part.y);
          sum[2] = __fadd_rn(sum[2], part.z), sum[3] = __fadd_rn(sum[3], part.w);
        }
        reduce_threads<kRowLanes>(sum, sum_of);
        if (lane == 0)
          store_vector4(reinterpret_cast<float*>(found + piece * kRowPiece + e),
                        Vector4<float>{sum[0], sum[1], sum[2], sum[3]});
      }
      __syncthreads();
    }
  }
  struct Slopes {
    const ColumnSums& sums;
    SlopeFactors of[kRowPiece];
    __device__ __forceinline__ explicit Slopes(const ColumnSums& its) : sums(its) {
      for_elements([&](int e) { of[e] = sums.shared.slopes[sums.share.piece * kRowPiece + e]; });
    }
    __device__ __forceinline__ void apply(const Walk&, Piece& x, Piece& dy) const {
      sums.differ(x, dy);
      apply_slopes(x, dy, [&](int e) -> const SlopeFactors& { return of[e]; });
    }
  };
};

}  // namespace tilewright
