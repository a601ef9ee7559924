// SPDX-License-Identifier: MIT
// The producers of grouped_gemm_sm90: a warp walks the groups and tells which tile is next, one thread asks for weights, a
// warp for the rows of A and for scales.
#pragma once

#include "grouped_gemm/sm90/grouped_sm90_lanes.cuh"
#include "grouped_gemm/sm90/grouped_sm90_layout.cuh"
#include "grouped_gemm/sm90/grouped_sm90_schedule.hpp"
#include "tile/sm90/remote_store.cuh"

namespace tilewright {

// Tiles as everyone but the walking warp sees them, in turn. Who takes one copies it; the whole warp, or one thread of it,
// that `leads`.
template <GroupedGemmSm90Config kConfig>
class GroupedTold {
 public:
  __device__ explicit GroupedTold(const GroupedSm90Layout<kConfig>& shared) : shared_(shared) {}

  __device__ __forceinline__ bool take(GroupedTile& tile) {
    sm90::wait(shared_.told(slot_.stage), slot_.phase);
    tile = shared_.tile(slot_.stage);
    loaded_ = static_cast<unsigned>(tile.group | tile.row | tile.rows | tile.steps | tile.column);
    return tile.steps > 0;
  }
  // This warp, or thread, has read it: the cluster's first block waits for that.
  __device__ __forceinline__ void forget(bool leads) {
    if constexpr (kConfig.cluster == 1) {
      if (leads) sm90::arrive_after(shared_.read(slot_.stage), loaded_);
    } else {
      if (leads) sm90::arrive_remote_after(shared_.read(slot_.stage), 0, loaded_);
    }
    slot_.advance();
  }

 private:
  const GroupedSm90Layout<kConfig>& shared_;
  sm90::Ring<kGroupedSlots> slot_;
  unsigned loaded_ = 0;  // bits of the tile that was taken
};

// Those who read a slot: the warps that multiply, who asks for weights, who asks for A; of all blocks of the cluster.
template <GroupedGemmSm90Config kConfig>
constexpr int kGroupedReaders = kConfig.cluster * (kConfig.warpgroups * 4 + 2);

// What a block is told, by a thread: of the cluster's tile its own part of the weights.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_tell_block(const GroupedSm90Layout<kConfig>& shared, int slot, int block,
                                                        GroupedTile tile) {
  if constexpr (kConfig.cluster == 1) {
    shared.tile(slot) = tile;
    sm90::arrive(shared.told(slot));
  } else {
    static_assert(sizeof(GroupedTile) == 2 * sizeof(uint4));
    const auto word = [](int x) { return static_cast<unsigned>(x); };
    uint4* const to = reinterpret_cast<uint4*>(&shared.tile(slot));
    tile.column = tile.column * kConfig.cluster + block;
    sm90::arrive_remote_expect_bytes(shared.told(slot), block, sizeof(GroupedTile));
    sm90::store_remote(to, shared.told(slot), block,
                       {word(tile.group), word(tile.row), word(tile.rows), word(tile.steps)});
    sm90::store_remote(to + 1, shared.told(slot), block, {word(tile.column), 0, 0, 0});
  }
}

// A warp of the cluster's first block. Tiles from a counter, or every so many-th.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_tell(const GroupedGemmSm90Args& args,
                                                  const GroupedSm90Layout<kConfig>& shared) {
  const GemmArgs& gemm = args.product.gemm;
  const int columns = grouped_sm90_cluster_columns(kConfig, gemm.n);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  GroupedTiles<GroupedSm90Lanes, kConfig.step, kConfig.tokens, grouped_sm90_registers(kConfig).lane_groups> tiles(
      args.groups, gemm.m, gemm.batch, columns, args.raster);
  sm90::Ring<kGroupedSlots> slot;
  constexpr bool kAlone = kConfig.cluster == 1;
  const auto cluster = static_cast<int>(kAlone ? blockIdx.x : sm90::cluster_id());
  const auto clusters = static_cast<int>(kAlone ? gridDim.x : sm90::cluster_count());
  int index = cluster;
  bool more = true;
  while (more) {
    GroupedTile tile{};
    more = tiles.take(index, tile);
    sm90::wait(shared.read(slot.stage), slot.phase ^ 1);
    if (lane < kConfig.cluster) grouped_sm90_tell_block<kConfig>(shared, slot.stage, lane, tile);
    slot.advance();
    if (args.counters == nullptr) {
      index += clusters;
    } else if (more) {
      int taken = 0;
      if (lane == 0) taken = static_cast<int>(atomicAdd(&args.counters->taken, 1u));
      index = clusters + __shfl_sync(0xFFFFFFFF, taken, 0);
    }
  }
  // Everyone has seen all groups by now.
  if (cluster == 0 && lane == 0 && tiles.clamped() && args.groups.status != nullptr) {
    *args.groups.status = kGroupsClamped;
  }
  // The last one leaves the counters as it found them: no other one will take.
  if (args.counters != nullptr && lane == 0) {
    __threadfence();
    const unsigned last = static_cast<unsigned>(clusters) - 1;
    if (atomicInc(&args.counters->done, last) == last) atomicExch(&args.counters->taken, 0u);
  }
}

// One thread.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_bring_weights(const GroupedGemmSm90Args& args,
                                                           const GroupedSm90Layout<kConfig>& shared) {
  using Layout = GroupedSm90Layout<kConfig>;
  constexpr int kBoxRows = gemm_sm90_skinny_box_rows(Layout::kWidest);
  const GemmSm90SkinnyArgs& product = args.product;
  const auto chunks = static_cast<int>((product.gemm.k + Layout::kStepK - 1) / Layout::kStepK);
  // Weights of few rows are read once.
  constexpr bool kOnce = kConfig.tokens <= 32;
  [[maybe_unused]] const unsigned long long policy = kOnce ? sm90::evict_first() : 0;
  const auto load = [&](void* to, sm90::Barrier& full, int k, int n, int group) {
    if constexpr (kOnce) {
      sm90::load_box_once(product.b, to, full, policy, k, n, group);
    } else {
      sm90::load_box(product.b, to, full, k, n, group);
    }
  };
  GroupedTold<kConfig> told(shared);
  GroupedTile tile;
  sm90::Ring<kConfig.stages> ring;
  while (told.take(tile)) {
    told.forget(true);
    const int n = tile.column * kBoxRows, group = product.batch_b ? tile.group : 0;
    for (int step = 0; step < chunks; ++step, ring.advance()) {
      sm90::wait(shared.empty(ring.stage), ring.phase ^ 1);
      sm90::Barrier& full = shared.full(ring.stage);
      sm90::arrive_expect_bytes(full, kConfig.depth * Layout::B::kBytes);
#pragma unroll
      for (int i = 0; i < kConfig.depth; ++i) {
        const int k = step * Layout::kStepK + i * Layout::kTileK;
        unsigned char* const to = shared.b(ring.stage, i);
        load(to, full, k, n, group);
        if constexpr (kConfig.gate == GateMode::kSeparated) {
          load(to + kBoxRows * kSkinnyRowBytes, full, k, n + static_cast<int>(product.gemm.n / 2), group);
        }
      }
    }
  }
}

// A warp: the rows of A, of which boxes make as many as the tile has, by the thread that `leads`; scales by all threads, word
// by word.
template <GroupedGemmSm90Config kConfig>
class GroupedSm90Tokens {
 public:
  using Layout = GroupedSm90Layout<kConfig>;

  // `block`: of the cluster.
  __device__ GroupedSm90Tokens(const GroupedGemmSm90Args& args, const Layout& shared, int block)
      : args_(args), shared_(shared), block_(block) {}

  __device__ __forceinline__ void bring(bool leads) {
    const GemmArgs& gemm = args_.product.gemm;
    const auto chunks = static_cast<int>((gemm.k + Layout::kStepK - 1) / Layout::kStepK);
    GroupedTold<kConfig> told(shared_);
    GroupedTile tile;
    sm90::Ring<kConfig.stages> ring;
    while (told.take(tile)) {
      if constexpr (kScaled) __syncwarp();
      told.forget(leads);
      [[maybe_unused]] Scales scales;
      if constexpr (kScaled) scales = scales_of(tile);
      for (int step = 0; step < chunks; ++step, ring.advance()) {
        sm90::wait(shared_.empty(ring.stage), ring.phase ^ 1);
        if (leads) load(tile, step, ring.stage);
        if constexpr (kScaled) load_scales(scales, step, ring.stage);
      }
    }
  }

 private:
  static constexpr bool kScaled = kConfig.promote == Promotion::kScaled;
  static constexpr int kScaleTokens = (kConfig.tokens + 31) / 32;  // of a thread

  __device__ __forceinline__ void load(const GroupedTile& tile, int step, int stage) const {
    sm90::Barrier& full = shared_.full_a(stage);
    const int rows = tile.steps * kConfig.step, group = args_.product.batch_a ? tile.group : 0;
    // All rows land here, whoever of the cluster asks for them.
    sm90::arrive_expect_bytes(full, kConfig.depth * rows * kSkinnyRowBytes);
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      const int k = step * Layout::kStepK + i * Layout::kTileK;
      if constexpr (kConfig.tall == GroupedTall::kTokens) {
        // Each warpgroup's rows begin where it looks for them.
#pragma unroll
        for (int w = 0; w < kConfig.warpgroups; ++w) {
          const GroupedPiece piece = grouped_tall_piece(kConfig, tile.steps, w);
          load_rows(shared_.a(stage, i) + w * (Layout::A::kBytes / kConfig.warpgroups), full, k, tile.row + piece.first,
                    piece.steps * kConfig.step, group);
        }
      } else {
        load_rows(shared_.a(stage, i), full, k, tile.row, rows, group);
      }
    }
  }
  // This block's share of `rows` rows.
  __device__ __forceinline__ void load_rows(unsigned char* to, sm90::Barrier& full, int k, int row, int rows,
                                            int group) const {
    const GroupedShare share = grouped_share(rows, block_, kConfig.cluster);
    int first = share.first;
    // Large boxes first; of the largest there may be two.
#pragma unroll
    for (int b = kGroupedBoxes - 1; b >= 0; --b) {
      const int box = kGroupedSmallestBox << b;
      if (box > grouped_most_share(kConfig) || (kConfig.cluster == 1 && box < kConfig.step)) continue;
      for (; share.end - first >= box; first += box) {
        unsigned char* const at = to + first * kSkinnyRowBytes;
        if constexpr (kConfig.cluster == 1) {
          sm90::load_box(args_.tokens[b], at, full, k, row + first, group);
        } else {
          sm90::load_box_multicast(args_.tokens[b], at, full, (1u << kConfig.cluster) - 1, k, row + first, group);
        }
      }
    }
  }

  // A thread's scales, which it asks for tile of K by tile of K: of some tokens, and of a block of the weights.
  struct Scales {
    const float* token;
    const float* block;
    int tokens;  // of this thread's, from its lane on
    bool has_block;
  };
  __device__ __forceinline__ Scales scales_of(const GroupedTile& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const GemmArgs& gemm = args_.product.gemm;
    const GemmBlockScale &a = args_.product.scale.a, &b = args_.product.scale.b;
    Scales scales;
    scales.tokens = tile.rows - lane;
    scales.token = static_cast<const float*>(a.data) + tile.group * a.stride_batch;
    if (scales.tokens > 0) scales.token += static_cast<int64>(tile.row + lane) * a.stride_outer;
    int64 n = static_cast<int64>(tile.column) * gemm_sm90_skinny_box_rows(Layout::kWidest);
    n += kConfig.gate == GateMode::kSeparated ? lane * (gemm.n / 2) : lane * kPromotedScaleBlock;
    scales.has_block = n < gemm.n;
    scales.block = static_cast<const float*>(b.data) + tile.group * b.stride_batch;
    if (scales.has_block) scales.block += n / kPromotedScaleBlock * b.stride_outer;
    return scales;
  }
  // Of the next stage.
  __device__ __forceinline__ void load_scales(Scales& scales, int step, int stage) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const GemmBlockScale &a = args_.product.scale.a, &b = args_.product.scale.b;
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      // The last stage may reach past K.
      const bool inside = i == 0 || (step * kConfig.depth + i) * kPromotedScaleBlock < args_.product.gemm.k;
#pragma unroll
      for (int j = 0; j < kScaleTokens; ++j) {
        if (lane + j * 32 >= kConfig.tokens) continue;
        const bool there = inside && j * 32 < scales.tokens;
        sm90::copy_word(shared_.token_scales(stage, i) + lane + j * 32,
                        there ? scales.token + j * 32 * a.stride_outer : static_cast<const float*>(a.data), there);
      }
      scales.token += a.stride_k;
      if (lane < Layout::kBlocks) {
        const bool there = inside && scales.has_block;
        sm90::copy_word(shared_.block_scales(stage, i) + lane, there ? scales.block : static_cast<const float*>(b.data),
                        there);
      }
      scales.block += b.stride_k;
    }
    sm90::arrive_with_words(shared_.full_a(stage));
  }

  const GroupedGemmSm90Args& args_;
  const Layout& shared_;
  const int block_;
};

}  // namespace tilewright
