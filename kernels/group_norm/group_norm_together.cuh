// SPDX-License-Identifier: MIT
// group_norm_gpu of groups that a cluster's registers hold, in CUDA for sm_90: x comes once, moments of its pieces are joined, and one launch does
// it all. A group's channels follow each other, so it is one row of pieces.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"
#include "group_norm/group_norm_tile_gpu.cuh"
#include "tile/gpu/row_moments.cuh"

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
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const unsigned piece = group.number(rank, j);
    const long long channel = group.first_channel + group.place(piece < group.all ? piece : 0).channel;
    weight[j] = column_element(args.weight, channel, 1), bias[j] = column_element(args.bias, channel, 0);
  }

  // A thread's last pieces are those that are not there.
  Moments found{0, 0, 0};
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    Piece p;
    words[j].widen(p);
    const Moments of = piece_moments<true>(p, kRowPiece);
    const Moments both = j == 0 ? of : joined(found, of, 1.0f / static_cast<float>(j + 1));
    found = chosen(group.number(rank, j) < group.all, both, found);
  }
  found = join_blocks(cluster, join_neighbours<kGroupNormThreads, /*kAlike=*/false>(found));
  const float inverse = 1 / square_root(__fadd_rn(found.squares / found.count, args.eps));

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
