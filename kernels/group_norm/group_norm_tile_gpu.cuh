// SPDX-License-Identifier: MIT
// How blocks share an image's positions and channels: 32 lanes a chunk of a channel's line, or, channels last, a block the chunk of a slab of
// channels, of which 8 threads take a piece each and others the next positions. One source for NVIDIA and AMD.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"
#include "group_norm/group_norm_args.hpp"
#include "tile/gpu/row.cuh"

namespace tilewright {

// The next step's blocks may come; a step that is not the first waits for the one in front.
__device__ __forceinline__ void begin_step(const GroupNormArgs& args, GroupNormStep first) {
  allow_next_kernel();
  if (args.step != first) wait_for_previous_kernel();
}

// Positions of so many tensors that a thread asks for at once. AMD GPUs have registers for half as many.
#if defined(__AMDGCN__)
template <int kTensors>
inline constexpr int kAskedPositions = 2 / kTensors;
#else
template <int kTensors>
inline constexpr int kAskedPositions = 4 / kTensors;
#endif

template <GroupNormConfig kConfig>
__device__ __forceinline__ int group_norm_bytes(const GroupNormArgs& args) {
  return dtype_bits(kConfig.dtype == DType::kNone ? args.dtype : kConfig.dtype) / 8;
}

// A thread's share of a chunk: pieces of `count_at` elements. Those of a line follow each other, those of positions lie below each other.
template <GroupNormConfig kConfig, bool kLast>
struct GroupNormTile {
  static constexpr int kStep = kLast ? kGroupNormDown : kRowLanes * kRowPiece;  // positions from a piece to the next
  static constexpr int kTiles = kLast ? 1 : kGroupNormThreads / kRowLanes;      // of a block at a time
  const GroupNormArgs& args;
  GroupNormChunk at;
  long long channel;  // of the line, or the piece's first
  int first;          // position of the chunk
  bool there;

  // Which of the threads that share a slab this one is.
  __device__ __forceinline__ static int across() {
    return static_cast<int>(threadIdx.x) % (kGroupNormSlab / kRowPiece);
  }

  __device__ __forceinline__ GroupNormTile(const GroupNormArgs& given, long long index, long long tiles) : args(given) {
    const auto me = static_cast<int>(threadIdx.x);
    there = index < tiles;
    const long long mine = there ? index : 0;
    if constexpr (kLast) {
      const Quotient of = divided_by(mine, (args.channels + kGroupNormSlab - 1) / kGroupNormSlab);
      at = group_norm_chunk(args, of.whole);
      channel = of.rest * kGroupNormSlab + across() * kRowPiece;
      first = me / (kGroupNormSlab / kRowPiece);
      there = there && channel < args.channels;
    } else {
      const Quotient of = divided_by(mine, args.chunks), line = divided_by(of.whole, args.channels);
      at = group_norm_chunk(args, line.whole * args.chunks + of.rest);
      channel = line.rest;
      first = me % kRowLanes * kRowPiece;
    }
  }
  __device__ __forceinline__ int count_at(int position) const {
    const long long left = kLast ? args.channels - channel : at.count - position;
    if (!there || position >= at.count) return 0;
    return kConfig.whole || left >= kRowPiece ? kRowPiece : static_cast<int>(left);
  }
  // Whether a piece's element i is one of its `count`.
  __device__ __forceinline__ static bool has(int i, int count) { return kConfig.whole ? count > 0 : i < count; }
  // Where a position's piece stands.
  __device__ __forceinline__ char* place(const GroupNormTensor& t, int position) const {
    const long long n = at.begin + position;
    const long long offset = kLast ? n * t.line + channel : channel * t.line + n;
    return static_cast<char*>(t.data) + (at.image * t.image + offset) * group_norm_bytes<kConfig>(args);
  }
  __device__ __forceinline__ void load(const GroupNormTensor& t, int position, int count, Piece& to) const {
    load_piece<kConfig.dtype, kConfig.whole>(place(t, position), args.dtype, 0, count, to);
  }
  __device__ __forceinline__ void store(const GroupNormTensor& t, int position, int count, const Piece& from) const {
    store_piece<kConfig.dtype, kConfig.whole>(place(t, position), args.dtype, 0, count, from);
  }
  // body(position, count, pieces of the tensors) for this thread's pieces, as often in every thread of a block.
  template <int kTensors, class Body>
  __device__ __forceinline__ void each(const GroupNormTensor* const (&tensors)[kTensors], Body&& body) const {
    // Positions whose loads do not wait for each other, nor for stores.
    constexpr int kTogether = kConfig.whole ? kAskedPositions<kTensors> : 1;
    [[maybe_unused]] constexpr int kUnrolled = kConfig.whole && kTogether == 1 ? 4 : 1;
    const auto span = static_cast<int>(args.span);
    const auto some = [&](int position, auto&& count_of) {
      Piece p[kTogether][kTensors];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
#pragma unroll
        for (int t = 0; t < kTensors; ++t)
          load(*tensors[t], position + j * kStep, count_of(position + j * kStep), p[j][t]);
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) body(position + j * kStep, count_of(position + j * kStep), p[j]);
    };
    int position = first;
    if constexpr (kTogether > 1) {
      // Nothing is asked where all is there.
      if (there && at.count == span) {
#pragma unroll 1
        for (; position - first + (kTogether - 1) * kStep < span; position += kTogether * kStep) {
          some(position, [](int) { return kRowPiece; });
        }
      }
    }
#pragma unroll kUnrolled
    for (; position - first < span; position += kTogether * kStep) {
      some(position, [&](int n) { return n - first < span ? count_at(n) : 0; });
    }
  }
};

// A block's tiles, one set after another, as many in every thread: body(GroupNormTile).
template <GroupNormConfig kConfig, bool kLast, class Body>
__device__ __forceinline__ void for_tiles(const GroupNormArgs& args, Body&& body) {
  using Tile = GroupNormTile<kConfig, kLast>;
  const long long lines = kLast ? (args.channels + kGroupNormSlab - 1) / kGroupNormSlab : args.channels;
  const long long tiles = args.images * args.chunks * lines;
#pragma unroll 1
  for (long long begin = static_cast<long long>(blockIdx.x) * Tile::kTiles; begin < tiles;
       begin += anew(args).grid * Tile::kTiles) {
    body(Tile(anew(args), begin + (kLast ? 0 : threadIdx.x / kRowLanes), tiles));
  }
}

// Two numbers of each of a thread's channels, added over all threads that have these channels. take(place in the slab, both) in one thread of each.
template <class Take>
__device__ __forceinline__ void sum_slab(float (&a)[kRowPiece], float (&b)[kRowPiece], Take&& take) {
  constexpr int kAcross = kGroupNormSlab / kRowPiece, kParts = kGroupNormThreads / kRowLanes;
  const auto me = static_cast<int>(threadIdx.x);
#pragma unroll
  for (unsigned distance = kAcross; distance < kRowLanes; distance *= 2) {
    for_elements([&](int i) {
      a[i] = __fadd_rn(a[i], lane_xor(a[i], distance));
      b[i] = __fadd_rn(b[i], lane_xor(b[i], distance));
    });
  }
  auto* const parts = reinterpret_cast<float*>(dynamic_shared());
  __syncthreads();
  if (me % kRowLanes < kAcross) {
    float* const mine = parts + me / kRowLanes * 2 * kGroupNormSlab + me % kRowLanes * kRowPiece;
    for_elements([&](int i) { mine[i] = a[i], mine[kGroupNormSlab + i] = b[i]; });
  }
  __syncthreads();
  if (me < kGroupNormSlab) {
    float sum[2] = {parts[me], parts[kGroupNormSlab + me]};
#pragma unroll 1
    for (int part = 1; part < kParts; ++part) {
      const float* const other = parts + part * 2 * kGroupNormSlab + me;
      sum[0] = __fadd_rn(sum[0], other[0]), sum[1] = __fadd_rn(sum[1], other[kGroupNormSlab]);
    }
    take(me, sum);
  }
}

__device__ __forceinline__ void silu_piece(Piece& p) {
#pragma unroll
  for (int i = 0; i < kRowPiece; i += 2) silu_both(p.v[i], p.v[i + 1]);
}

// kNone: `dtype` tells the type.
template <DType kType>
__device__ __forceinline__ float load_element(const void* from, DType dtype) {
  const DType type = kType == DType::kNone ? dtype : kType;
  if (type == DType::kF32) return *static_cast<const float*>(from);
  return widen_16(type == DType::kBf16, *static_cast<const unsigned short*>(from));
}
__device__ __forceinline__ float column_element(const RowVector& v, long long channel, float otherwise) {
  if (v.data == nullptr) return otherwise;
  return load_element<DType::kNone>(static_cast<const char*>(v.data) + channel * dtype_bits(v.dtype) / 8, v.dtype);
}

// What a channel is normalised with.
struct alignas(16) GroupNormScale {
  float mean, inverse, weight, bias;
};
__device__ __forceinline__ GroupNormScale group_norm_scale(const GroupNormArgs& args, long long image,
                                                           long long channel) {
  const Vector4<float> of = load_vector4(channel_floats(args, image, channel));
  return {of.x, of.y, of.z, of.w};
}
// Of a thread's channels: of one, or of those of its piece, of which those that are not there are the last one.
template <bool kLast>
struct GroupNormScales {
  GroupNormScale of[kLast ? kRowPiece : 1];

  template <class Tile>
  __device__ __forceinline__ explicit GroupNormScales(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < (kLast ? kRowPiece : 1); ++i) {
      const long long channel = tile.channel + i, last = tile.args.channels - 1;
      of[i] = group_norm_scale(tile.args, tile.at.image, channel < last ? channel : last);
    }
  }
  __device__ __forceinline__ const GroupNormScale& operator[](int i) const { return of[kLast ? i : 0]; }
};

}  // namespace tilewright
