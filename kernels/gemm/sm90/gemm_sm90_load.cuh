// SPDX-License-Identifier: MIT
// gemm_sm90: who asks for tiles, and who tells which tile is next.
#pragma once

#include "gemm/sm90/gemm_sm90_boxes.cuh"
#include "gemm/sm90/gemm_sm90_scales.cuh"
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/ring.cuh"

namespace tilewright {

// The work of a cluster, one tile or part of a tile after another: at most one part, first, so that those who share a tile
// are at it at the same time; then whole tiles.
template <GemmSm90Config kConfig>
struct GemmSm90Tiles {
  const GemmSm90Share share;
  const int cluster, clusters, group, split, all_steps;
  int next;
  int tile, first_step, steps;
  int part, parts, shared_tile;  // parts = 1: a whole tile
  int m, n, batch;               // of the tile, in clusters of tiles; after locate()

  __device__ explicit GemmSm90Tiles(const GemmSm90Args& args)
      : share(args.share),
        cluster(static_cast<int>(sm90::cluster_id())),
        clusters(static_cast<int>(sm90::cluster_count())),
        group(args.raster),
        split(args.split),
        all_steps(
            static_cast<int>((args.gemm.k + GemmSm90Layout<kConfig>::kTileK - 1) / GemmSm90Layout<kConfig>::kTileK)),
        next(cluster < share.rest * split ? -1 : cluster) {}

  __device__ __forceinline__ bool take() {
    if (next >= share.whole) return false;
    tile = next;
    first_step = 0, steps = all_steps, part = 0, parts = 1;
    if (next < 0) {
      shared_tile = cluster / split;
      part = cluster - shared_tile * split, parts = split;
      tile = share.whole + shared_tile;
      first_step = static_cast<int>(static_cast<int64>(all_steps) * part / parts);
      steps = static_cast<int>(static_cast<int64>(all_steps) * (part + 1) / parts) - first_step;
    }
    next = next < 0 ? cluster : next + clusters;
    return true;
  }

  // Groups of `group` rows of tiles, along M inside and along N outside: what runs at a time is near a square and shares
  // most of A and B in L2.
  __device__ __forceinline__ void locate() {
    const int each = share.tiles_m * share.tiles_n;
    batch = tile / each;
    const int index = tile - batch * each;
    const int first = index / (group * share.tiles_n) * group;
    const int rows = min(group, share.tiles_m - first);
    const int inside = index - first * share.tiles_n;
    n = inside / rows;
    m = first + inside - n * rows;
  }
};

// The producer, one thread; where tiles have scales that do not lie along M, a warp. Blocks that need the same tile bring a slice
// of it each, for all of them.
template <GemmSm90Config kConfig, bool kAlongM>
__device__ __forceinline__ void gemm_sm90_load(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                               int block_m, int block_n) {
  using Layout = GemmSm90Layout<kConfig>;
  constexpr int kSliceA = kConfig.tile_m / kConfig.cluster_n, kSliceB = kConfig.tile_n / kConfig.cluster_m;
  constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  constexpr int kLoadB = gemm_sm90_copy_columns(kConfig);
  constexpr unsigned kRow = (1u << kConfig.cluster_n) - 1;
  constexpr unsigned kColumn = ((1u << kConfig.cluster_m * kConfig.cluster_n) - 1) / kRow;
  const auto blocks_a = static_cast<unsigned short>(kRow << block_m * kConfig.cluster_n);
  const auto blocks_b = static_cast<unsigned short>(kColumn << block_n);

  constexpr bool kScaled = kConfig.promote == Promotion::kScaled;
  [[maybe_unused]] GemmSm90ScaleLoader<kConfig, kAlongM> scales(args.scale);
  sm90::Ring<kConfig.stages> ring;
  GemmSm90Tiles<kConfig> tiles(args);
  while (tiles.take()) {
    tiles.locate();
    const int m = (tiles.m * kConfig.cluster_m + block_m) * kConfig.tile_m + block_n * kSliceA;
    // A separated gate: the tile's first half is columns of the gate, its second the same columns of up.
    const int first = block_m * kSliceB;
    int n = (tiles.n * kConfig.cluster_n + block_n) * kConfig.tile_n + first;
    if constexpr (kSeparated) {
      n = (tiles.n * kConfig.cluster_n + block_n) * kConfig.tile_n / 2 + first % (kConfig.tile_n / 2);
      if (first >= kConfig.tile_n / 2) n += static_cast<int>(args.gemm.n / 2);
    }
    const int batch_a = args.batch_a ? tiles.batch : 0, batch_b = args.batch_b ? tiles.batch : 0;
    unsigned bytes = Layout::kStageBytes;
    if constexpr (kScaled) {
      scales.begin(args.scale, args.gemm, (tiles.m * kConfig.cluster_m + block_m) * kConfig.tile_m,
                   (tiles.n * kConfig.cluster_n + block_n) * (kSeparated ? kConfig.tile_n / 2 : kConfig.tile_n),
                   tiles.batch, tiles.first_step);
      bytes += scales.bytes();
    }
    for (int step = tiles.first_step; step < tiles.first_step + tiles.steps; ++step, ring.advance()) {
      sm90::wait(shared.empty(ring.stage), ring.phase ^ 1);
      sm90::Barrier& full = shared.full(ring.stage);
      if (!kScaled || kAlongM || threadIdx.x % 32 == 0) {
        sm90::arrive_expect_bytes(full, bytes);
        Layout::A::template load<kSliceA, (kConfig.cluster_n > 1)>(args.a, shared.a(ring.stage), block_n * kSliceA,
                                                                   full, blocks_a, m, step * Layout::kTileK, batch_a);
        Layout::B::template load<kLoadB, (kConfig.cluster_m > 1)>(args.b, shared.b(ring.stage), first, full, blocks_b,
                                                                  n, step * Layout::kTileK, batch_b);
        if constexpr (kLoadB < kSliceB) {
          Layout::B::template load<kLoadB, false>(args.b, shared.b(ring.stage), first + kLoadB, full, blocks_b,
                                                  n + static_cast<int>(args.gemm.n / 2), step * Layout::kTileK,
                                                  batch_b);
        }
      }
      if constexpr (kScaled) scales.load(args.scale, shared, ring.stage);
    }
  }
}

// One warp tells the others which tile is next; three bring its scales and bias.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_tell(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                               int block_m, int block_n) {
  const int thread = threadIdx.x % 128 - 32;
  sm90::Ring<kSm90Slots> slot;
  GemmSm90Tiles<kConfig> tiles(args);
  bool more = true;
  while (more) {
    more = tiles.take();
    if (more) tiles.locate();
    const int m = (tiles.m * kConfig.cluster_m + block_m) * kConfig.tile_m;
    const int n = (tiles.n * kConfig.cluster_n + block_n) * gemm_sm90_d_columns(kConfig);
    sm90::wait(shared.read(slot.stage), slot.phase ^ 1);
    if (thread == 0) {
      shared.tile(slot.stage) = {m,          n,           tiles.batch,      more ? tiles.steps : -1,
                                 tiles.part, tiles.parts, tiles.shared_tile};
      sm90::arrive(shared.told(slot.stage));
    }
    if constexpr (gemm_sm90_has_factors(kConfig)) {
      if (more) gemm_sm90_bring_factors<kConfig>(args, shared, slot.stage, m, n, tiles.batch, thread);
      // Each thread for what it wrote itself: one for its warp would do, but racecheck does not follow that.
      sm90::arrive(shared.brought(slot.stage));
    } else if (thread >= 32) {
      return;
    }
    slot.advance();
  }
}

}  // namespace tilewright
