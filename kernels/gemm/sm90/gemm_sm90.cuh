// SPDX-License-Identifier: MIT
// gemm_sm90: persistent, warp-specialised GEMM for Hopper. One thread asks the copy engine for tiles of A and B; the
// warpgroups multiply them, and write D beside the products of the next tile.
#pragma once

#include "gemm/sm90/gemm_sm90_apart.cuh"
#include "gemm/sm90/gemm_sm90_elements.cuh"
#include "gemm/sm90/gemm_sm90_load.cuh"
#include "gemm/sm90/gemm_sm90_partial.cuh"
#include "gemm/sm90/gemm_sm90_pieces.cuh"
#include "gemm/sm90/gemm_sm90_words.cuh"
#include "tile/portable/kernel_edges.cuh"

namespace tilewright {

// What a warpgroup that multiplies knows of tiles: the one at hand, and the one before, which it may still write.
template <GemmSm90Config kConfig>
class GemmSm90Told {
 public:
  __device__ explicit GemmSm90Told(const GemmSm90Layout<kConfig>& shared) : shared_(shared) {}

  // Waits for the next tile. Its steps along K; negative: there are no more.
  __device__ __forceinline__ int take() {
    sm90::wait(shared_.told(slot_.stage), slot_.phase);
    is_whole_ = sm90::uniform(tile().parts) == 1;
    return sm90::uniform(tile().steps);
  }
  __device__ __forceinline__ bool is_whole() const { return is_whole_; }
  // Whether it is the block's last.
  __device__ __forceinline__ bool is_last() const { return sm90::uniform(tile().is_last) != 0; }
  __device__ __forceinline__ const GemmSm90Tile& tile() const { return shared_.tile(slot_.stage); }
  __device__ __forceinline__ int slot() const { return slot_.stage; }
  __device__ __forceinline__ int slot_before() const { return slot_.stage ^ 1; }
  // Scales and bias of the tile are there.
  __device__ __forceinline__ void wait_for_factors() const {
    if constexpr (gemm_sm90_has_factors(kConfig)) sm90::wait(shared_.brought(slot_.stage), slot_.phase);
  }
  // This warp is done with what stands in `slot`.
  __device__ __forceinline__ void forget(int slot) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) sm90::arrive(shared_.read(slot));
  }
  __device__ __forceinline__ void advance() { slot_.advance(); }

 private:
  static_assert(kSm90Slots == 2);
  const GemmSm90Layout<kConfig>& shared_;
  sm90::Ring<kSm90Slots> slot_;
  bool is_whole_ = true;
};

// A warpgroup's sums of a part of a tile meet those of the other parts.
template <GemmSm90Config kConfig, class Output, class Sum, int kRows64, int kCount>
__device__ __forceinline__ void gemm_sm90_meet_parts(const GemmSm90Args& args, const GemmSm90Tile& tile, int rank,
                                                     int warpgroup, Sum (&sum)[kRows64][kCount]) {
#pragma unroll
  for (int r = 0; r < kRows64; ++r) {
    const int place =
        ((tile.shared_tile * GemmSm90Layout<kConfig>::kBlocks + rank) * kConfig.warpgroups + warpgroup) * kRows64 + r;
    gemm_sm90_exchange<Output>(args, {tile.part, tile.parts, place}, 1 + warpgroup, sum[r]);
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

// A warpgroup: all tiles.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_tiles(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                                GemmSm90Stages<kConfig>& stages, int rank, int warpgroup) {
  using Layout = GemmSm90Layout<kConfig>;
  using Output = typename GemmSm90OutputOf<kConfig, kConfig.d_words>::Type;
  typename Layout::Wgmma::Accumulator sum[Layout::kRows64][kConfig.tile_n / 2];
  Output output(args, shared, warpgroup);
  GemmSm90Told<kConfig> told(shared);
  bool held = false;
  bool is_last = false;
  for (int steps = told.take(); steps >= 0; steps = is_last ? -1 : told.take()) {
    is_last = told.is_last();
    const GemmSm90Turn turn = !is_last || kConfig.warpgroups == 1 ? GemmSm90Turn::kNone
                              : warpgroup == 0                    ? GemmSm90Turn::kFirst
                                                                  : GemmSm90Turn::kSecond;
    gemm_sm90_multiply<kConfig, Output::kWrites>(stages, steps, turn, sum, [&](int i) {
      if (!held) return;
      output.write(told.slot_before(), i);
      if (i == Output::kWrites - 1) told.forget(told.slot_before());
    });
    if (!told.is_whole()) gemm_sm90_meet_parts<kConfig, Output>(args, told.tile(), rank, warpgroup, sum);
    told.wait_for_factors();
    output.hold(sum, told.slot());
    held = Output::kLate;
    if (!held) told.forget(told.slot());
    told.advance();
  }
  if (!held) return;
  if (kConfig.warpgroups > 1 && warpgroup == 0) {
    output.write_first(told.slot_before());
  } else {
    output.write_all(told.slot_before());
  }
}

// The same where 8-bit floats are summed apart.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_tiles_apart(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                                      GemmSm90Stages<kConfig>& stages, int rank, int warpgroup) {
  using Layout = GemmSm90Layout<kConfig>;
  float sum[Layout::kRows64][kConfig.tile_n / 2];
  GemmSm90Told<kConfig> told(shared);
  const auto multiply = [&](int steps, const auto& begin, const auto& end) {
    gemm_sm90_multiply_apart(shared, stages, steps, warpgroup, told.tile().n, sum, begin, end);
  };
  if constexpr (kConfig.d_words) {
    using Output = GemmSm90Pieces<kConfig>;
    constexpr int kLast = Output::kPieces - 1;
    const Output output(args, shared, warpgroup);
    bool held = false;
    const auto write_last = [&] {
      output.write(sum, told.slot_before(), kLast);
      told.forget(told.slot_before());
    };
    for (int steps = told.take(); steps >= 0; steps = told.take()) {
      const bool early = kLast > 0 && steps > 1 && told.is_whole();
      const auto write_first = [&] {
        told.wait_for_factors();
        output.write(sum, told.slot(), 0);
      };
      multiply(
          steps,
          [&] {
            if (held) write_last();
          },
          [&] {
            if (early) write_first();
          });
      if (!early) {
        if (!told.is_whole()) gemm_sm90_meet_parts<kConfig, Output>(args, told.tile(), rank, warpgroup, sum);
        if (kLast > 0) write_first();
      }
      told.wait_for_factors();
      held = true;
      told.advance();
    }
    if (held) write_last();
    output.end();
  } else {
    using Output = GemmSm90Elements<kConfig>;
    const Output output(args, shared, warpgroup);
    for (int steps = told.take(); steps >= 0; steps = told.take()) {
      multiply(steps, [] {}, [] {});
      if (!told.is_whole()) gemm_sm90_meet_parts<kConfig, Output>(args, told.tile(), rank, warpgroup, sum);
      output.hold(sum, told.slot());
      told.forget(told.slot());
      told.advance();
    }
  }
}

// What a block begins with: barriers and tensor maps. A stage is full when its bytes are there, empty when every warp of every block
// that reads copies of this block's producer is done with it. By one thread, since barriers of several lanes are made one by one, too.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_begin(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared) {
  if (threadIdx.x == 0) {
    const int bringing = kConfig.promote != Promotion::kScaled ? 1 : gemm_sm90_scales_along_m(args.scale.a) ? 2 : 33;
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      sm90::init(shared.full(stage), bringing);
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
    if constexpr (gemm_sm90_by_pieces(kConfig)) sm90::prefetch_map(args.d);
  }
}

// The block, or the cluster, has its barriers: who has no part in them arrives before all else.
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_arrive() {
  if constexpr (GemmSm90Layout<kConfig>::kBlocks > 1) sm90::arrive_cluster();
}
template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90_meet() {
  if constexpr (GemmSm90Layout<kConfig>::kBlocks > 1) {
    sm90::wait_cluster();
  } else {
    // __syncthreads() would have to be one for all: warps meet here from different places.
    constexpr int kBarrier = 4;
    sm90::named_barrier(kBarrier, gemm_sm90_threads(kConfig));
  }
}

// The warp that loads.
template <GemmSm90Config kConfig, bool kAlongM>
__device__ __forceinline__ void gemm_sm90_produce(const GemmSm90Args& args, const GemmSm90Layout<kConfig>& shared,
                                                  int block_m, int block_n, const GemmSm90Tiles<kConfig>& tiles) {
  GemmSm90Producer<kConfig, kAlongM> producer(args, shared, block_m, block_n, tiles);
  const bool leads = !kAlongM || sm90::elect_one();
  gemm_sm90_meet<kConfig>();
  wait_for_previous_kernel();
  if (leads) producer.bring_all();
}

template <GemmSm90Config kConfig>
__device__ __forceinline__ void gemm_sm90(const GemmSm90Args& args) {
  using Layout = GemmSm90Layout<kConfig>;
  extern __shared__ __align__(
      1024) unsigned char dynamic_shared[];  // the 128-byte swizzle counts from multiples of 1024
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const int rank = Layout::kBlocks == 1 ? 0 : static_cast<int>(sm90::block_in_cluster());
  const int block_m = rank / kConfig.cluster_n, block_n = rank % kConfig.cluster_n;
  constexpr int kProducerRegisters = 40;
  constexpr int kConsumerRegisters = kConfig.warpgroups == 1 ? 240 : kConfig.warpgroups == 2 ? 232 : 160;

  // The last warpgroup loads, the others multiply.
  const int warpgroup = warp / 4;
  if (warpgroup == kConfig.warpgroups) {
    gemm_sm90_arrive<kConfig>();
    sm90::release_registers<kProducerRegisters>();
    const GemmSm90Tiles<kConfig> tiles(args);
    if (warp % 4 != 0) {
      gemm_sm90_meet<kConfig>();
      wait_for_previous_kernel();
      gemm_sm90_tell<kConfig>(args, shared, block_m, block_n, tiles);
    } else if (kConfig.promote == Promotion::kScaled && !gemm_sm90_scales_along_m(args.scale.a)) {
      gemm_sm90_produce<kConfig, false>(args, shared, block_m, block_n, tiles);
    } else {
      gemm_sm90_produce<kConfig, true>(args, shared, block_m, block_n, tiles);
    }
  } else {
    gemm_sm90_begin<kConfig>(args, shared);
    gemm_sm90_arrive<kConfig>();
    gemm_sm90_meet<kConfig>();
    allow_next_kernel();
    wait_for_previous_kernel();
    if constexpr (kConfig.warpgroups > 1) sm90::take_registers<kConsumerRegisters>();
    GemmSm90Stages<kConfig> stages(shared, warpgroup, block_m, block_n);
    if constexpr (kConfig.promote != Promotion::kNone) {
      gemm_sm90_tiles_apart(args, shared, stages, rank, warpgroup);
    } else {
      gemm_sm90_tiles(args, shared, stages, rank, warpgroup);
    }
  }
  // No block leaves while others of its cluster still arrive at its barriers or write into its memory.
  if constexpr (Layout::kBlocks > 1) sm90::meet_cluster();
}

}  // namespace tilewright
