// SPDX-License-Identifier: MIT
// gemm_sm90: persistent, warp-specialised GEMM for Hopper. One thread asks the copy engine for tiles of A and B; the
// warpgroups multiply them, and write D beside the products of the next tile.
#pragma once

#include "gemm/sm90/gemm_sm90_elements.cuh"
#include "gemm/sm90/gemm_sm90_partial.cuh"
#include "gemm/sm90/gemm_sm90_scales.cuh"
#include "gemm/sm90/gemm_sm90_words.cuh"
#include "tile/sm90/cluster.cuh"
#include "tile/sm90/promote.cuh"
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
      : share(gemm_sm90_share(kConfig, args.gemm.m, args.gemm.n, args.gemm.batch, args.split,
                              static_cast<int>(sm90::cluster_count()))),
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

// The producer, one thread; where tiles have scales, a warp. Blocks that need the same tile bring a slice of it each, for
// all of them.
template <GemmSm90Config kConfig>
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
    [[maybe_unused]] GemmSm90ScaleLoader<kConfig> scales;
    if constexpr (kConfig.promote == Promotion::kScaled) {
      scales.begin(args.scale, args.gemm, (tiles.m * kConfig.cluster_m + block_m) * kConfig.tile_m,
                   (tiles.n * kConfig.cluster_n + block_n) * (kSeparated ? kConfig.tile_n / 2 : kConfig.tile_n),
                   tiles.batch, tiles.first_step);
    }
    for (int step = tiles.first_step; step < tiles.first_step + tiles.steps; ++step, ring.advance()) {
      sm90::wait(shared.empty(ring.stage), ring.phase ^ 1);
      sm90::Barrier& full = shared.full(ring.stage);
      if (kConfig.promote != Promotion::kScaled || threadIdx.x % 32 == 0) {
        sm90::arrive_expect_bytes(full, Layout::kStageBytes);
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
      if constexpr (kConfig.promote == Promotion::kScaled) scales.load(args.scale, shared, ring.stage);
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

// A warp is done with a stage: says so to the blocks whose copies land here, this one's row and column of the cluster, this
// one once.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_release(const GemmSm90Layout<kConfig>& shared, int stage, int block_m,
                                                  int block_n) {
  const int lane = threadIdx.x % 32;
  if constexpr (GemmSm90Layout<kConfig>::kBlocks == 1) {
    if (lane == 0) sm90::arrive(shared.empty(stage));
  } else if (lane < kConfig.cluster_m + kConfig.cluster_n - 1) {
    const int i = lane - kConfig.cluster_n;
    const int block = lane < kConfig.cluster_n ? block_m * kConfig.cluster_n + lane
                                               : (i + (i >= block_m)) * kConfig.cluster_n + block_n;
    sm90::arrive_remote(shared.empty(stage), block);
  }
}

// A warpgroup: the tile's sum over K, left in `sum`. A stage is given back when the products after its own are issued, so
// that the tensor cores always have the next ones. beside(0), beside(1) ... kBeside - 1 run beside the first of them.
template <GemmSm90Config kConfig, int kBeside, class Accumulator, int kRows64, int kCount, class Beside>
__device__ __forceinline__ void gemm_sm90_multiply(const GemmSm90Layout<kConfig>& shared,
                                                   sm90::Ring<kConfig.stages>& ring, int steps, int warpgroup,
                                                   int block_m, int block_n, Accumulator (&sum)[kRows64][kCount],
                                                   Beside&& beside) {
  using Layout = GemmSm90Layout<kConfig>;
  using Wgmma = typename Layout::Wgmma;
  constexpr int kTransposeA = kConfig.a_major == Major::kMn, kTransposeB = kConfig.b_major == Major::kMn;
  int before = 0;
  const auto multiply = [&](bool first) {
    sm90::wait(shared.full(ring.stage), ring.phase);
    const unsigned long long b = Layout::B::descriptor_at(shared.b(ring.stage), 0);
#pragma unroll
    for (int r = 0; r < kRows64; ++r) sm90::pin(sum[r]);
    sm90::begin_products();
#pragma unroll
    for (int r = 0; r < kRows64; ++r) {
      const unsigned long long a = Layout::A::descriptor_at(shared.a(ring.stage), (warpgroup * kRows64 + r) * 64);
#pragma unroll
      for (int k = 0; k < Layout::kTileK / Wgmma::kK; ++k) {
        Wgmma::template multiply<kTransposeA, kTransposeB>(sum[r], a + k * sm90::kDescriptorStep<kConfig.a_major>,
                                                           b + k * sm90::kDescriptorStep<kConfig.b_major>,
                                                           !first || k > 0);
      }
    }
    sm90::commit_products();
#pragma unroll
    for (int r = 0; r < kRows64; ++r) sm90::pin(sum[r]);
    sm90::wait_products<1>();
    if (!first) gemm_sm90_release(shared, before, block_m, block_n);
    before = ring.stage;
    ring.advance();
  };
#pragma unroll
  for (int i = 0; i < kBeside; ++i) {
    if (i == 0 || i < steps) multiply(i == 0);
    beside(i);
  }
#pragma unroll 1
  for (int step = kBeside; step < steps; ++step) multiply(false);
  sm90::wait_products<0>();
#pragma unroll
  for (int r = 0; r < kRows64; ++r) sm90::pin(sum[r]);
  gemm_sm90_release(shared, before, block_m, block_n);
}

// The same where each stage but the first is summed apart. One warpgroup adds while the other multiplies.
// beside(0) ... kBeside - 1 run beside the first, when nothing apart needs registers.
template <GemmSm90Config kConfig, int kBeside, int kRows64, int kCount, class Beside>
__device__ __forceinline__ void gemm_sm90_multiply_apart(const GemmSm90Layout<kConfig>& shared,
                                                         sm90::Ring<kConfig.stages>& ring, int steps, int warpgroup,
                                                         int block_m, int block_n, int first_column,
                                                         float (&sum)[kRows64][kCount], Beside&& beside) {
  using Layout = GemmSm90Layout<kConfig>;
  constexpr int kColumns = gemm_sm90_columns_at_once(kConfig);
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kColumns>;
  const auto a_of = [&](int r) {
    return Layout::A::descriptor_at(shared.a(ring.stage), (warpgroup * kRows64 + r) * 64);
  };
  const auto b_of = [&](int n) { return Layout::B::descriptor_at(shared.b(ring.stage), n); };
  const auto release = [&] { gemm_sm90_release(shared, ring.stage, block_m, block_n); };
  const GemmSm90TileScales<kConfig> scales(shared, warpgroup, first_column);

  sm90::wait(shared.full(ring.stage), ring.phase);
#pragma unroll
  for (int r = 0; r < kRows64; ++r) {
#pragma unroll
    for (int n = 0; n < kConfig.tile_n; n += kColumns) {
      auto& piece = reinterpret_cast<float(&)[kColumns / 2]>(sum[r][n / 2]);
      sm90::begin_apart<Wgmma, Layout::kTileK>(piece, a_of(r), b_of(n));
    }
  }
#pragma unroll
  for (int i = 0; i < kBeside; ++i) beside(i);
  sm90::wait_products<0>();
#pragma unroll
  for (int r = 0; r < kRows64; ++r) {
    sm90::pin(sum[r]);
#pragma unroll
    for (int n = 0; n < kConfig.tile_n; n += kColumns) scales.of(ring.stage, r, n).multiply(&sum[r][n / 2]);
  }
  release();
  ring.advance();

  float apart[kColumns / 2];  // the first product overwrites
  // A stage goes back before its last sums are added, and steps stand four times; halves of 112 columns leave no registers
  // for that.
  constexpr bool kEarly = kColumns != 112;
  [[maybe_unused]] constexpr int kUnroll = kEarly ? 4 : 1;
#pragma unroll kUnroll
  for (int step = 1; step < steps; ++step) {
    sm90::wait(shared.full(ring.stage), ring.phase);
#pragma unroll
    for (int r = 0; r < kRows64; ++r) {
#pragma unroll
      for (int n = 0; n < kConfig.tile_n; n += kColumns) {
        // Before the products, which leave shared memory little time for others.
        auto scale = scales.of(ring.stage, r, n);
        sm90::begin_apart<Wgmma, Layout::kTileK>(apart, a_of(r), b_of(n));
        sm90::wait_products<0>();
        sm90::pin(apart);
        scale.pin();
        const bool last = r == kRows64 - 1 && n == kConfig.tile_n - kColumns;
        if (kEarly && last) release();
        scale.add(&sum[r][n / 2], apart);
        if (!kEarly && last) release();
      }
    }
    ring.advance();
  }
}

template <GemmSm90Config kConfig, bool kWords>
struct GemmSm90OutputOf {
  using Type = GemmSm90Words<kConfig>;
};
template <GemmSm90Config kConfig>
struct GemmSm90OutputOf<kConfig, false> {
  using Type = GemmSm90Elements<kConfig>;
};

template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90(const GemmSm90Args& args) {
  using Layout = GemmSm90Layout<kConfig>;
  extern __shared__ __align__(
      1024) unsigned char dynamic_shared[];  // the 128-byte swizzle counts from multiples of 1024
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const int rank = Layout::kBlocks == 1 ? 0 : static_cast<int>(sm90::block_in_cluster());
  const int block_m = rank / kConfig.cluster_n, block_n = rank % kConfig.cluster_n;

  // Barriers: a stage is full when its bytes are there, empty when every warp of every block that reads copies of this
  // block's producer is done with it.
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      sm90::init(shared.full(stage), kConfig.promote == Promotion::kScaled ? 33 : 1);
      sm90::init(shared.empty(stage), (kConfig.cluster_m + kConfig.cluster_n - 1) * kConfig.warpgroups * 4);
    }
    for (int slot = 0; slot < kSm90Slots; ++slot) {
      sm90::init(shared.told(slot), 1);
      sm90::init(shared.brought(slot), kSm90BringingThreads);
      sm90::init(shared.read(slot), kConfig.warpgroups * 4);
    }
    sm90::fence_barrier_init();
  } else if (threadIdx.x == 32) {
    sm90::prefetch_map(args.a);
    sm90::prefetch_map(args.b);
  }
  if constexpr (Layout::kBlocks > 1) {
    sm90::meet_cluster();
  } else {
    __syncthreads();
  }
  sm90::allow_next_kernel();
  sm90::wait_for_previous_kernel();

  // The last warpgroup loads, the others multiply.
  constexpr int kProducerRegisters = 40;
  constexpr int kConsumerRegisters = kConfig.warpgroups == 1 ? 240 : kConfig.warpgroups == 2 ? 232 : 160;
  const int warpgroup = warp / 4;
  if (warpgroup == kConfig.warpgroups) {
    sm90::release_registers<kProducerRegisters>();
    if (warp % 4 == 0 && (kConfig.promote == Promotion::kScaled || sm90::elect_one())) {
      gemm_sm90_load(args, shared, block_m, block_n);
    }
    if (warp % 4 != 0) gemm_sm90_tell<kConfig>(args, shared, block_m, block_n);
  } else {
    if constexpr (kConfig.warpgroups > 1) sm90::take_registers<kConsumerRegisters>();
    typename Layout::Wgmma::Accumulator sum[Layout::kRows64][kConfig.tile_n / 2];
    using Output = typename GemmSm90OutputOf<kConfig, kConfig.d_words>::Type;
    Output output(args, shared, warpgroup);
    sm90::Ring<kConfig.stages> ring;
    sm90::Ring<kSm90Slots> slot;
    bool held = false;
    const auto forget = [&](int old) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) sm90::arrive(shared.read(old));
    };
    while (true) {
      sm90::wait(shared.told(slot.stage), slot.phase);
      const int steps = shared.tile(slot.stage).steps;
      if (steps < 0) break;
      const auto beside = [&](int i) {
        if (!held) return;
        output.write(slot.stage ^ 1, i);
        if (i == Output::kWrites - 1) forget(slot.stage ^ 1);
      };
      if constexpr (kConfig.promote != Promotion::kNone) {
        gemm_sm90_multiply_apart<kConfig, Output::kWrites>(shared, ring, steps, warpgroup, block_m, block_n,
                                                           shared.tile(slot.stage).n, sum, beside);
      } else {
        gemm_sm90_multiply<kConfig, Output::kWrites>(shared, ring, steps, warpgroup, block_m, block_n, sum, beside);
      }
      const GemmSm90Tile& tile = shared.tile(slot.stage);
      if (tile.parts > 1) {
#pragma unroll
        for (int r = 0; r < Layout::kRows64; ++r) {
          const int place =
              ((tile.shared_tile * Layout::kBlocks + rank) * kConfig.warpgroups + warpgroup) * Layout::kRows64 + r;
          gemm_sm90_exchange<Output>(args, {tile.part, tile.parts, place}, 1 + warpgroup, sum[r]);
        }
      }
      if constexpr (gemm_sm90_has_factors(kConfig)) sm90::wait(shared.brought(slot.stage), slot.phase);
      output.hold(sum, slot.stage);
      held = Output::kLate;
      if (!held) forget(slot.stage);
      slot.advance();
    }
    if (held) output.write_all(slot.stage ^ 1);
  }
  // No block leaves while others of its cluster still arrive at its barriers or write into its memory.
  if constexpr (Layout::kBlocks > 1) sm90::meet_cluster();
}

}  // namespace tilewright
