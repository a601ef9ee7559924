// SPDX-License-Identifier: MIT
// gemm_sm90: who asks for tiles, and who tells which tile is next.
#pragma once

#include "gemm/sm90/gemm_sm90_boxes.cuh"
#include "gemm/sm90/gemm_sm90_scales.cuh"
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/ring.cuh"

namespace tilewright {

// The work of a cluster, one tile or part of a tile after another: at most one part, first, so that those who share a tile
// are at it at the same time; then whole tiles. The first is found when this is made.
template <GemmSm90Config kConfig>
struct GemmSm90Tiles {
  bool more;  // false: there is none, and what follows says nothing
  int first_step, steps;
  int part, parts, shared_tile;  // parts = 1: a whole tile
  int m, n, batch;               // of the tile, in clusters of tiles

  __device__ __forceinline__ explicit GemmSm90Tiles(const GemmSm90Args& args)
      : next_(static_cast<int>(blockIdx.x / GemmSm90Layout<kConfig>::kBlocks)) {
    const Denominator& split = args.walk.parts;
    take_whole(args);
    int tile = next_;
    if (next_ < args.share.rest * static_cast<int>(split.by)) {
      shared_tile = static_cast<int>(divided(next_, split));
      parts = static_cast<int>(split.by), part = next_ - shared_tile * parts;
      const unsigned before = args.walk.steps * part;
      first_step = static_cast<int>(divided(before, split));
      steps = static_cast<int>(divided(before + args.walk.steps, split)) - first_step;
      more = true;
      tile = args.share.whole + shared_tile;
    }
    locate(args, tile);
  }
  __device__ __forceinline__ bool is_last(const GemmSm90Args& args) const { return after() >= args.share.whole; }
  __device__ __forceinline__ void advance(const GemmSm90Args& args) {
    next_ = after();
    take_whole(args);
    locate(args, next_);
  }

 private:
  __device__ __forceinline__ int after() const {
    return parts > 1 ? next_ : next_ + static_cast<int>(gridDim.x / GemmSm90Layout<kConfig>::kBlocks);
  }
  __device__ __forceinline__ void take_whole(const GemmSm90Args& args) {
    first_step = 0, steps = args.walk.steps, part = 0, parts = 1, shared_tile = 0;
    more = next_ < args.share.whole;
  }
  // Groups of rows of tiles, along M inside and along N outside: what runs at a time is near a square and shares most of A and B
  // in L2.
  __device__ __forceinline__ void locate(const GemmSm90Args& args, unsigned tile) {
    const GemmSm90Walk& walk = args.walk;
    unsigned entry = 0, first = 0;
    Denominator rows = walk.rows;
    if (tile >= walk.tiles.by) {
      entry = divided(tile, walk.tiles);
      tile -= entry * walk.tiles.by;
    }
    if (tile >= walk.group.by) {
      const unsigned group = divided(tile, walk.group);
      tile -= group * walk.group.by;
      first = group * rows.by;
      if (first + rows.by > static_cast<unsigned>(args.share.tiles_m)) rows = walk.last_rows;
    }
    const unsigned column = divided(tile, rows);
    batch = static_cast<int>(entry), n = static_cast<int>(column);
    m = static_cast<int>(first + tile - column * rows.by);
  }

  int next_;
};

// The producer, one thread; where tiles have scales that do not lie along M, a warp. Blocks that need the same tile bring a slice
// of it each, for all of them. What the first copy needs is found when this is made, before the blocks meet.
template <GemmSm90Config kConfig, bool kAlongM>
class GemmSm90Producer {
 public:
  __device__ __forceinline__ GemmSm90Producer(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                              int block_m, int block_n, const GemmSm90Tiles<kConfig>& tiles)
      : args_(args), shared_(shared), block_m_(block_m), block_n_(block_n), tiles_(tiles), scales_(args.scale) {
    begin();
  }

  __device__ __forceinline__ void bring_all() {
    sm90::Ring<kConfig.stages> ring;
    while (tiles_.more) {
#pragma unroll 1
      for (int step = tiles_.first_step; step < tiles_.first_step + tiles_.steps; ++step, ring.advance()) {
        sm90::wait(shared_.empty(ring.stage), ring.phase ^ 1);
        bring(step, ring.stage);
      }
      tiles_.advance(args_);
      begin();
    }
  }

 private:
  using Layout = GemmSm90Layout<kConfig>;
  static constexpr bool kScaled = kConfig.promote == Promotion::kScaled;
  static constexpr bool kSeparated = kConfig.gate == GateMode::kSeparated;
  static constexpr int kSliceA = kConfig.tile_m / kConfig.cluster_n, kSliceB = kConfig.tile_n / kConfig.cluster_m;
  static constexpr int kLoadB = gemm_sm90_copy_columns(kConfig);
  static constexpr unsigned kRow = (1u << kConfig.cluster_n) - 1;
  static constexpr unsigned kColumn = ((1u << kConfig.cluster_m * kConfig.cluster_n) - 1) / kRow;

  // The tile at hand.
  __device__ __forceinline__ void begin() {
    m_ = first_row() + block_n_ * kSliceA;
    // A separated gate: the tile's first half is columns of the gate, its second the same columns of up.
    const int first = block_m_ * kSliceB;
    n_ = (tiles_.n * kConfig.cluster_n + block_n_) * kConfig.tile_n + first;
    if constexpr (kSeparated) {
      n_ = (tiles_.n * kConfig.cluster_n + block_n_) * kConfig.tile_n / 2 + first % (kConfig.tile_n / 2);
      if (first >= kConfig.tile_n / 2) n_ += static_cast<int>(args_.gemm.n / 2);
    }
    batch_a_ = args_.batch_a ? tiles_.batch : 0, batch_b_ = args_.batch_b ? tiles_.batch : 0;
    if constexpr (kScaled) scales_.count(args_.gemm, first_row());
  }
  __device__ __forceinline__ int first_row() const {
    return (tiles_.m * kConfig.cluster_m + block_m_) * kConfig.tile_m;
  }
  // A step of the tile.
  __device__ __forceinline__ void bring(int step, int stage) {
    const int k = step * Layout::kTileK;
    sm90::Barrier& full = shared_.full(stage);
    if (!kScaled || kAlongM || threadIdx.x % 32 == 0) {
      const int first = block_m_ * kSliceB;
      const auto blocks_a = static_cast<unsigned short>(kRow << block_m_ * kConfig.cluster_n);
      const auto blocks_b = static_cast<unsigned short>(kColumn << block_n_);
      sm90::arrive_expect_bytes(full, Layout::kStageBytes + (kScaled ? scales_.bytes() : 0));
      Layout::A::template load<kSliceA, (kConfig.cluster_n > 1)>(args_.a, shared_.a(stage), block_n_ * kSliceA, full,
                                                                 blocks_a, m_, k, batch_a_);
      Layout::B::template load<kLoadB, (kConfig.cluster_m > 1)>(args_.b, shared_.b(stage), first, full, blocks_b, n_, k,
                                                                batch_b_);
      if constexpr (kLoadB < kSliceB) {
        Layout::B::template load<kLoadB, false>(args_.b, shared_.b(stage), first + kLoadB, full, blocks_b,
                                                n_ + static_cast<int>(args_.gemm.n / 2), k, batch_b_);
      }
    }
    if constexpr (kScaled) {
      if (step == tiles_.first_step) {
        // Addresses of 64 bits, which the compiler would make before the loop.
        int place[] = {first_row(), (tiles_.n * kConfig.cluster_n + block_n_) * kConfig.tile_n / (kSeparated ? 2 : 1),
                       tiles_.batch};
        sm90::pin(place);
        scales_.begin(args_.scale, args_.gemm, place[0], place[1], place[2], step);
      }
      scales_.load(args_.scale, shared_, stage);
    }
  }

  const GemmSm90Args& args_;
  const GemmSm90Layout<kConfig> shared_;
  const int block_m_, block_n_;
  GemmSm90Tiles<kConfig> tiles_;
  GemmSm90ScaleLoader<kConfig, kAlongM> scales_;
  int m_, n_, batch_a_, batch_b_;
};

// One warp tells the others which tile is next; three bring its scales and bias.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_tell(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                               int block_m, int block_n, GemmSm90Tiles<kConfig> tiles) {
  const int thread = threadIdx.x % 128 - 32;
  sm90::Ring<kSm90Slots> slot;
  for (bool more = true; more; tiles.advance(args)) {
    more = tiles.more;
    const int m = (tiles.m * kConfig.cluster_m + block_m) * kConfig.tile_m;
    const int n = (tiles.n * kConfig.cluster_n + block_n) * gemm_sm90_d_columns(kConfig);
    sm90::wait(shared.read(slot.stage), slot.phase ^ 1);
    if (thread == 0) {
      shared.tile(slot.stage) = {m,          n,           tiles.batch,       more ? tiles.steps : -1,
                                 tiles.part, tiles.parts, tiles.shared_tile, tiles.is_last(args)};
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
