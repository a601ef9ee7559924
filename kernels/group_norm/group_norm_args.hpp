// SPDX-License-Identifier: MIT
// What host and kernels of group_norm and its gradient share. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"
#include "tile/common/quotient.hpp"
#include "tile/common/row_args.hpp"

namespace tilewright {

// [images, channels, positions]. A line is a channel's positions, channels last a position's channels: its elements are neighbours.
// Strides in elements.
struct GroupNormTensor {
  void* data;
  long long image, line;
};

// Each reads what the one before it found.
enum class GroupNormStep : unsigned char {
  kMoments,  // mean and variance of each channel's part of a chunk of positions
  kGroups,   // of each group, from these: what normalises it
  kOutput,
  kWhole,  // all of these, group by group: what one thread reads twice stays in its cache
  // Of the gradient, instead of the output.
  kSums,          // of each channel's part: of the output's gradients, and of their products with normalised elements
  kCoefficients,  // of each group, from these: means
  kColumns,       // gradients of weight and bias, from the same
  kGradient,
};

// GPU, groups that a cluster's shared memory holds: how a slab of them is shared. `span` is a block's pieces, channels last its positions.
struct GroupNormSlots {
  Denominator slabs;           // of an image
  Denominator group_channels;  // channels of a group
  Denominator below;           // channels last: positions that a block takes at a time
  int turns;                   // pieces of a thread, at most
  unsigned lane_bits;          // gradients, channels first: pieces of 2^lane_bits lanes side by side are of one channel
};

struct GroupNormArgs {
  GroupNormTensor x, out;
  RowVector weight, bias;
  GroupNormTensor dy;  // of the gradient, whose output is x's gradient
  RowSums dweight, dbias;
  long long images, channels, groups, positions;
  long long span, chunks;   // positions of a chunk, the last one may have fewer
  float* parts;             // [images, chunks, channels, 2], and behind them [images, groups, 4]; GPU: of channels
  long long grid;           // GPU: blocks
  long long width;          // channels of a slab: on CPUs channels last, on GPUs of a cluster
  Denominator line_pieces;  // GPU: pieces of a channel's positions, or of a position's channels in a slab
  GroupNormSlots slots;
  float eps;
  DType dtype;
  bool channels_last;
  Activation activation;  // kNone or kSilu
  GroupNormStep step;
};

// What a kernel is compiled for. kNone: type and layout are told at run time. `whole`, of GPUs: every piece of 8 elements is there, and
// starts where one load or store takes it. `cluster`, of sm_90: so many blocks of so many `threads` have a slab of groups in slots of shared
// memory, of a gradient x and dy; 0: steps.
struct GroupNormConfig {
  static constexpr const char* kTypeName = "GroupNormConfig";
  DType dtype;
  bool channels_last, whole;
  int cluster = 0, threads = 0;

  bool operator==(const GroupNormConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("channels_last", self.channels_last);
    visit("whole", self.whole);
    visit("cluster", self.cluster);
    visit("threads", self.threads);
  }
};

// A chunk of an image's positions.
struct GroupNormChunk {
  long long image, chunk, begin, count;
};
constexpr GroupNormChunk group_norm_chunk(const GroupNormArgs& args, long long index) {
  const Quotient at = divided_by(index, args.chunks);
  const long long begin = at.rest * args.span, left = args.positions - begin;
  return {at.whole, at.rest, begin, left < args.span ? left : args.span};
}
// Where two numbers of a channel's part of a chunk stand: mean and variance, later sums. And those of a group: its mean, what deviations
// from it are multiplied by, and the means of its gradient, and of that times normalised elements.
constexpr float* channel_part(const GroupNormArgs& args, const GroupNormChunk& at, long long channel) {
  return args.parts + ((at.image * args.chunks + at.chunk) * args.channels + channel) * 2;
}
constexpr float* group_part(const GroupNormArgs& args, long long image, long long group) {
  return args.parts + args.images * args.chunks * args.channels * 2 + (image * args.groups + group) * 4;
}
constexpr long long group_norm_floats(long long images, long long chunks, long long channels, long long groups) {
  return images * (chunks * channels * 2 + groups * 4);
}
// GPU: of a channel, instead of its group's: mean, inverse deviation, weight, bias, and the two means. Behind the parts.
inline constexpr int kGroupNormChannelFloats = 8;
constexpr long long channel_floats_begin(long long images, long long chunks, long long channels) {
  return (group_norm_floats(images, chunks, channels, 0) + 3) / 4 * 4;
}
constexpr float* channel_floats(const GroupNormArgs& args, long long image, long long channel) {
  return args.parts + channel_floats_begin(args.images, args.chunks, args.channels) +
         (image * args.channels + channel) * kGroupNormChannelFloats;
}

// CPU, channels last: channels that are taken together, as many as wide lines of memory want, and whole lines of them.
inline constexpr int kGroupNormCpuChannels = 2048, kGroupNormCpuLine = 64;
// A chunk's positions: few enough for the first caches; GPU: a few pieces of each thread.
inline constexpr long long kGroupNormCpuSpan = 4096, kGroupNormCpuSpanLast = 256;
inline constexpr int kGroupNormThreads = 256;
inline constexpr int kGroupNormSlab = 64;  // channels of a block, channels last: 8 threads beside each other
inline constexpr int kGroupNormDown = kGroupNormThreads * kRowPiece / kGroupNormSlab;  // and as many below each other
inline constexpr long long kGroupNormGpuSpan = 2048, kGroupNormGpuSpanLast = 8 * kGroupNormDown;
// Slabs in slots: blocks and groups of one at most, copies that a thread waits for one after another, and where the channels' factors begin.
inline constexpr int kGroupSlotBlocks = 8, kGroupSlotGroups = 8, kGroupSlotCopies = 4;
// Of each thread: what it found of its piece's sides, or of a gradient sums of channels' parts.
inline constexpr int kGroupSlotPartBytes = 16, kChannelSumBytes = 8;
constexpr int group_slot_shared_bytes(int threads) { return 2048 + kGroupSlotPartBytes * threads; }
constexpr int group_slot_factor_bytes(long long channels) { return static_cast<int>((channels + 15) / 16 * 128); }
constexpr long long group_slot_bytes(DType dtype, int threads, long long channels, long long turns) {
  return group_slot_shared_bytes(threads) + group_slot_factor_bytes(channels) + turns * threads * dtype_bits(dtype);
}
// Of a gradient: what a channel is normalised with, its slope's factors, and two sums of each block.
constexpr int group_slot_gradient_bytes(long long channels, int cluster) {
  return static_cast<int>((channels + 15) / 16 * 16 * (32 + 8 * cluster));
}
constexpr long long group_gradient_slot_bytes(DType dtype, int threads, int cluster, long long channels,
                                              long long turns) {
  return group_slot_shared_bytes(threads) + group_slot_gradient_bytes(channels, cluster) +
         2 * turns * threads * dtype_bits(dtype);
}
inline constexpr int kGroupNormSharedBytes = 2 * kGroupNormThreads / kRowLanes * kGroupNormSlab * 4;

}  // namespace tilewright
