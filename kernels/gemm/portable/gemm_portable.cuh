// SPDX-License-Identifier: MIT
// gemm_portable: GEMM for every capability from 8.0 up. Copies to shared memory run `stages - 1` tiles of K ahead of the
// multiplications (cp.async); warps read fragments from there (ldmatrix) and multiply (mma.sync), or multiply f32 by
// fused multiply-adds. It takes any strides and alignments: copies of 16 bytes, of 4 bytes, or by elements.
//
// A block makes one tile of D. Blocks are numbered so that those that run together share rows of A and columns of B. With a
// split K a first launch writes partial sums to the workspace and a second one adds them in the order of K: the result
// does not depend on timing. Knobs: gemm_portable_shape.hpp.
#pragma once

#include "gemm/gpu/gemm_tile_store_gpu.cuh"
#include "gemm/portable/gemm_portable_multiply.cuh"

namespace tilewright {

template <GemmPortableConfig kConfig, class ATile, class BTile, bool kFma>
struct PortableWarp {
  using Type = WarpMma<kConfig, ATile, BTile>;
};
template <GemmPortableConfig kConfig, class ATile, class BTile>
struct PortableWarp<kConfig, ATile, BTile, true> {
  using Type = WarpFma<kConfig, ATile, BTile>;
};

template <GemmPortableConfig kConfig>
struct GemmPortable {
  static constexpr GemmPortableShape kShape = gemm_portable_shape(kConfig);
  static constexpr bool kFma = kConfig.mma == PortableMma::kFma;
  static constexpr bool kGated = kConfig.gate != GateMode::kNone;
  static constexpr int kPartWidth = kConfig.tile_n / kShape.b_parts;
  static constexpr int kTileOut = kGated ? kConfig.tile_n / 2 : kConfig.tile_n;  // columns of D
  static constexpr int kStageBytes = kShape.a_bytes + kShape.b_parts * kShape.b_bytes;
  static_assert(gemm_portable_refusal(kConfig) == nullptr);

  using ATile = typename PortableTile<kConfig.mma, kShape.a_mn_tile, kConfig.tile_m, kConfig.tile_k, kShape.size>::Type;
  using BTile = typename PortableTile<kConfig.mma, kShape.b_mn_tile, kPartWidth, kConfig.tile_k, kShape.size>::Type;
  static_assert(ATile::kBytes == kShape.a_bytes && BTile::kBytes == kShape.b_bytes);
  using A = PortableOperand<ATile, kShape.a_mn_tile, kConfig.a_major, kConfig.a_copy, kConfig.tile_k, kShape.size,
                            kShape.threads>;
  using B = PortableOperand<BTile, kShape.b_mn_tile, kConfig.b_major, kConfig.b_copy, kConfig.tile_k, kShape.size,
                            kShape.threads>;
  using Warp = typename PortableWarp<kConfig, ATile, BTile, kFma>::Type;
  using Sum = typename Warp::Sum;

  // Where a block works.
  struct Place {
    unsigned batch, split, tile;
    int64 m0, n0;   // first row and column of D
    int rows, out;  // of D that are there, cut to the tile
  };

  __device__ __forceinline__ static int cut(int64 left, int most) {
    return left < most ? static_cast<int>(left) : most;
  }

  __device__ __forceinline__ static Place place(const GemmArgs& args, const GemmPortableTiles& tiles, unsigned unit,
                                                unsigned splits) {
    const unsigned count = static_cast<unsigned>(tiles.m * tiles.n), across = static_cast<unsigned>(tiles.n);
    Place p;
    p.tile = unit % count;
    p.split = unit / count % splits;
    p.batch = unit / count / splits;
    // Down a band of rows of tiles, then to its next column.
    const int64 asked = args.block_m > 0 ? args.block_m : kPortableBand;
    const unsigned band = static_cast<unsigned>(asked < tiles.m ? asked : tiles.m);
    const unsigned first = p.tile / (band * across) * band, rest = p.tile % (band * across);
    const unsigned below = static_cast<unsigned>(tiles.m) - first, height = below < band ? below : band;
    p.m0 = static_cast<int64>(first + rest % height) * kConfig.tile_m;
    p.n0 = static_cast<int64>(rest / height) * kTileOut;
    p.rows = cut(args.m - p.m0, kConfig.tile_m);
    p.out = cut(tiles.out_n - p.n0, kTileOut);
    return p;
  }

  __device__ __forceinline__ static void multiply(const GemmArgs& args, const Place& p, const GemmPortableTiles& tiles,
                                                  Warp& warp, int thread) {
    const unsigned shared = shared_address(dynamic_shared());
    const int64 k0 = tiles.splits > 1 ? p.split * args.block_k : 0;
    const int64 depth = tiles.splits > 1 && args.k - k0 > args.block_k ? args.block_k : args.k - k0;
    const char* a_data = static_cast<const char*>(args.a) +
                         (p.batch * args.stride_a_batch + p.m0 * args.stride_a_m + k0 * args.stride_a_k) * kShape.size;
    const A a{a_data, args.stride_a_m * kShape.size, args.stride_a_k * kShape.size, p.rows, depth};
    const int64 n0 = kConfig.gate == GateMode::kInterleaved ? 2 * p.n0 : p.n0;
    const int width = kConfig.gate == GateMode::kInterleaved ? 2 * p.out : p.out;
    const char* b_data = static_cast<const char*>(args.b) +
                         (p.batch * args.stride_b_batch + n0 * args.stride_b_n + k0 * args.stride_b_k) * kShape.size;
    const B b{b_data, args.stride_b_n * kShape.size, args.stride_b_k * kShape.size, width, depth};
    const B up{b_data + tiles.out_n * args.stride_b_n * kShape.size, b.stride_mn, b.stride_k, width, depth};

    const int steps = static_cast<int>((depth + kConfig.tile_k - 1) / kConfig.tile_k);
    const auto fetch = [&](int step) {
      if (step < steps) {
        const unsigned stage = shared + static_cast<unsigned>(step % kConfig.stages * kStageBytes);
        const int64 k = static_cast<int64>(step) * kConfig.tile_k;
        a.load(stage, k, thread);
        b.load(stage + kShape.a_bytes, k, thread);
        if constexpr (kShape.b_parts == 2) up.load(stage + kShape.a_bytes + kShape.b_bytes, k, thread);
      }
      commit_copies();
    };
#pragma unroll
    for (int step = 0; step < kConfig.stages - 1; ++step) fetch(step);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      // This stage is there for all; the one before it has been read by all and may be filled.
      wait_copies<kConfig.stages - 2>();
      __syncthreads();
      fetch(step + kConfig.stages - 1);
      const unsigned stage = shared + static_cast<unsigned>(step % kConfig.stages * kStageBytes);
      warp.multiply(stage, stage + kShape.a_bytes);
    }
    wait_copies<0>();
    __syncthreads();
  }

  // Partial sums of a tile: all splits of it after one another.
  __device__ __forceinline__ static Sum* partial(const GemmArgs& args, const Place& p, const GemmPortableTiles& tiles,
                                                 unsigned split) {
    const int64 index = (p.batch * tiles.m * tiles.n + p.tile) * tiles.splits + split;
    return static_cast<Sum*>(args.workspace) + index * kConfig.tile_m * kConfig.tile_n;
  }

  __device__ __forceinline__ static void make_tile(const GemmArgs& args, const GemmPortableTiles& tiles, int thread) {
    const Place p = place(args, tiles, blockIdx.x, static_cast<unsigned>(tiles.splits));
    Warp warp(thread);
    multiply(args, p, tiles, warp, thread);
    if (tiles.splits > 1) {
      Sum* to = partial(args, p, tiles, p.split);
      warp.for_pairs([&](int row, int column, Sum first, Sum second) {
        if (row < p.rows) *reinterpret_cast<Pair*>(to + row * kConfig.tile_n + column) = {first, second};
      });
      return;
    }
    Sum* sums = reinterpret_cast<Sum*>(dynamic_shared());
    warp.for_pairs([&](int row, int column, Sum first, Sum second) {
      *reinterpret_cast<Pair*>(sums + row * kShape.sum_pitch + column) = {first, second};
    });
    __syncthreads();
    write(args, p, sums, p.m0, p.rows, thread);
  }

  // kPortableReduceRows rows of a tile.
  __device__ __forceinline__ static void reduce(const GemmArgs& args, const GemmPortableTiles& tiles, int thread) {
    constexpr int kRows = kPortableReduceRows;
    constexpr unsigned kSlices = gemm_portable_reduce_blocks(kConfig);
    const Place p = place(args, tiles, blockIdx.x / kSlices, 1);
    const int first = static_cast<int>(blockIdx.x % kSlices) * kRows,
              rows = p.rows - first < kRows ? p.rows - first : kRows;
    if (rows <= 0) return;
    Sum* sums = reinterpret_cast<Sum*>(dynamic_shared());
    const Sum* from = partial(args, p, tiles, 0) + first * kConfig.tile_n;
    for (int i = thread * 4; i < rows * kConfig.tile_n; i += kShape.threads * 4) {
      Vector4<Sum> total = *reinterpret_cast<const Vector4<Sum>*>(from + i);
#pragma unroll 4
      for (int64 split = 1; split < tiles.splits; ++split) {
        const int64 at = split * kConfig.tile_m * kConfig.tile_n + i;
        const Vector4<Sum> part = *reinterpret_cast<const Vector4<Sum>*>(from + at);
        total = {total.x + part.x, total.y + part.y, total.z + part.z, total.w + part.w};
      }
      *reinterpret_cast<Vector4<Sum>*>(sums + i / kConfig.tile_n * kShape.sum_pitch + i % kConfig.tile_n) = total;
    }
    __syncthreads();
    write(args, p, sums, p.m0 + first, rows, thread);
  }

  __device__ __forceinline__ static void write(const GemmArgs& args, const Place& p, const Sum* sums, int64 m, int rows,
                                               int thread) {
    const GemmEpilogue<kConfig.epilogue_config()> epilogue(args.epilogue, args.m, args.n, p.batch);
    store_sums<kConfig.epilogue_config(), kConfig.tile_n, kShape.threads>(epilogue, sums, kShape.sum_pitch, m, p.n0,
                                                                          args.n, rows, thread);
  }

  struct alignas(8) Pair {
    Sum first, second;
  };
};

template <GemmPortableConfig kConfig>
__device__ __forceinline__ void gemm_portable(const GemmArgs& args) {
  using Kernel = GemmPortable<kConfig>;
  const GemmPortableTiles tiles = gemm_portable_tiles(kConfig, args.m, args.n, args.k, args.block_k);
  const int thread = static_cast<int>(threadIdx.x);
  if (args.block_n == kPortableReduce) return Kernel::reduce(args, tiles, thread);
  Kernel::make_tile(args, tiles, thread);
}

}  // namespace tilewright
