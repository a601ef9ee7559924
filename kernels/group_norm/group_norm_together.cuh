// SPDX-License-Identifier: MIT
// group_norm_gpu of groups that a cluster's registers hold, in CUDA for sm_90: x comes once, its moments go around the blocks, and one launch does
// it all. A group's channels follow each other, so it is one row of pieces.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"
#include "group_norm/group_norm_tile_gpu.cuh"
#include "tile/gpu/row_input.cuh"

namespace tilewright {

template <GroupNormConfig kConfig>
struct GroupTogether {
  static constexpr int kPieces = kConfig.pieces;
  const GroupNormArgs& args;
  long long image, first_channel;
  unsigned all;  // pieces of the group

  __device__ __forceinline__ explicit GroupTogether(const GroupNormArgs& given) : args(given) {
    const Quotient group = divided_by(blockIdx.x / kConfig.cluster, args.groups);
    const long long channels = args.channels / args.groups;
    image = group.whole, first_channel = group.rest * channels;
    all = static_cast<unsigned>(channels) * args.line_pieces.by;
  }
  // A thread's piece j, of those of all blocks; threads beside each other have pieces beside each other.
  __device__ __forceinline__ static unsigned number(int rank, int j) {
    return static_cast<unsigned>((rank * kPieces + j) * kGroupNormThreads) + threadIdx.x;
  }
  struct Place {
    unsigned channel;  // of the group
    int position;
  };
  __device__ __forceinline__ Place place(unsigned piece) const {
    const unsigned channel = divided(piece, args.line_pieces);
    return {channel, static_cast<int>(piece - channel * args.line_pieces.by) * kRowPiece};
  }
  __device__ __forceinline__ char* address(const GroupNormTensor& t, const Place& at) const {
    const long long offset = image * t.image + (first_channel + at.channel) * t.line + at.position;
    return static_cast<char*>(t.data) + offset * (dtype_bits(kConfig.dtype) / 8);
  }
};

template <GroupNormConfig kConfig>
__device__ __forceinline__ void normalise_together(const GroupNormArgs& args) {
  constexpr int kPieces = kConfig.pieces;
  RowCluster<kConfig.cluster> cluster;
  const GroupTogether<kConfig> group(args);
  const int rank = cluster.rank();

  // All is asked for at once; a piece that is not there is the first one.
  PieceWords<kConfig.dtype> words[kPieces];
  float weight[kPieces], bias[kPieces];
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const unsigned piece = group.number(rank, j);
    words[j].load(group.address(args.x, group.place(piece < group.all ? piece : 0)));
  }
  const float about = load_element<kConfig.dtype>(group.address(args.x, {0, 0}), args.dtype);
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const unsigned piece = group.number(rank, j);
    const long long channel = group.first_channel + group.place(piece < group.all ? piece : 0).channel;
    weight[j] = column_element(args.weight, channel, 1), bias[j] = column_element(args.bias, channel, 0);
  }

  // Differences from the group's first element lose nothing to a mean that is far above them.
  float sum[2] = {};
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    Piece p;
    words[j].widen(p);
    const bool there = group.number(rank, j) < group.all;
    for_elements([&](int i) {
      const float d = there ? __fadd_rn(p.v[i], -about) : 0;
      sum[0] = __fadd_rn(sum[0], d), sum[1] = __fmaf_rn(d, d, sum[1]);
    });
  }
  reduce_threads<kGroupNormThreads>(sum, sum_of);
  cluster.reduce(sum, sum_of);
  const RowMoments found = row_moments(about, sum, static_cast<float>(group.all) * kRowPiece);
  const float inverse = 1 / square_root(__fadd_rn(found.variance, args.eps));

#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const unsigned piece = group.number(rank, j);
    if (piece >= group.all) break;
    Piece p;
    words[j].widen(p);
    const float factor = __fmul_rn(inverse, weight[j]);
    for_elements([&](int i) { p.v[i] = __fmaf_rn(__fadd_rn(p.v[i], -found.mean), factor, bias[j]); });
    if (args.activation == Activation::kSilu)
      for_elements([&](int i) { p.v[i] = activate<Activation::kSilu>(p.v[i], 0, 0); });
    store_piece<kConfig.dtype, true>(group.address(args.out, group.place(piece)), args.dtype, 0, kRowPiece, p);
  }
}

}  // namespace tilewright
