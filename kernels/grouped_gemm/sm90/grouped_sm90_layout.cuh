// SPDX-License-Identifier: MIT
// Where everything of grouped_gemm_sm90 lies in dynamic shared memory: stages as gemm_sm90_skinny has them, of the widest tile,
// however wide the tile at hand is.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny.cuh"
#include "grouped_gemm/sm90/grouped_sm90_args.hpp"

namespace tilewright {

template <GroupedGemmSm90Config kConfig>
struct GroupedSm90Layout {
  using B = sm90::Operand<kConfig.dtype, Major::kK, kConfig.rows>;
  using A = sm90::Operand<kConfig.dtype, Major::kK, kConfig.tokens>;
  static constexpr int kTileK = A::kTileK, kStepK = kTileK * kConfig.depth;
  static constexpr int kStageBytes = grouped_sm90_stage_bytes(kConfig);
  static constexpr int kThreads = kConfig.warpgroups * 128;              // that multiply
  static constexpr int kParts = kConfig.rows / 64 / kConfig.warpgroups;  // of 64 rows a warpgroup
  static constexpr GemmSm90SkinnyConfig kWidest = grouped_sm90_product(kConfig, kConfig.tokens);
  static constexpr int kBlocks = gemm_sm90_skinny_scale_blocks(kWidest);

  unsigned char* base;
  __device__ explicit GroupedSm90Layout(unsigned char* memory) : base(memory) {}
  __device__ unsigned char* b(int stage, int tile) const { return base + stage * kStageBytes + tile * B::kBytes; }
  __device__ unsigned char* a(int stage, int tile) const { return b(stage, kConfig.depth) + tile * A::kBytes; }
  // Of a warpgroup; of one of its warps.
  __device__ unsigned char* boxes(int warpgroup) const {
    return base + kConfig.stages * kStageBytes + warpgroup * grouped_sm90_box_bytes(kConfig);
  }
  __device__ unsigned char* box(int warp) const { return boxes(0) + warp * (grouped_sm90_box_bytes(kConfig) / 4); }
  __device__ float* factors() const { return reinterpret_cast<float*>(boxes(kConfig.warpgroups)); }
  // Two tiles in turn: told by who walks the groups, read by everyone else.
  __device__ GroupedTile& tile(int slot) const {
    return reinterpret_cast<GroupedTile*>(factors() + kConfig.tokens)[slot];
  }
  __device__ float* token_scales(int stage, int tile_k) const {
    return reinterpret_cast<float*>(&tile(kGroupedSlots)) + (stage * kConfig.depth + tile_k) * kConfig.tokens;
  }
  __device__ float* block_scales(int stage, int tile_k) const {
    return token_scales(kConfig.stages, 0) + (stage * kConfig.depth + tile_k) * kBlocks;
  }
  // A stage's weights are there; its part of A, with scales; its products are made, by all blocks of the cluster.
  __device__ sm90::Barrier& full(int stage) const {
    auto* const scales = reinterpret_cast<unsigned char*>(&tile(kGroupedSlots));
    return reinterpret_cast<sm90::Barrier*>(scales + grouped_sm90_scale_bytes(kConfig))[stage];
  }
  __device__ sm90::Barrier& full_a(int stage) const { return full(kConfig.stages + stage); }
  __device__ sm90::Barrier& empty(int stage) const { return full(2 * kConfig.stages + stage); }
  __device__ sm90::Barrier& told(int slot) const { return full(3 * kConfig.stages + slot); }
  __device__ sm90::Barrier& read(int slot) const { return told(kGroupedSlots + slot); }
  // Part p of a warpgroup's rows is rows [64 (p warpgroups + warpgroup), + 64).
  __device__ unsigned long long weights(int stage, int tile_k, int part, int warpgroup) const {
    return B::descriptor_at(b(stage, tile_k), (part * kConfig.warpgroups + warpgroup) * 64);
  }
};

// The same with the products of a tile of kTokens.
template <GroupedGemmSm90Config kConfig, int kTokens>
struct GroupedSm90TileLayout : GroupedSm90Layout<kConfig> {
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kTokens>;
  __device__ explicit GroupedSm90TileLayout(const GroupedSm90Layout<kConfig>& shared)
      : GroupedSm90Layout<kConfig>(shared) {}
};

// A warp is done with a stage, and says so to all whose copies land there.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_release(const GroupedSm90Layout<kConfig>& shared, int stage) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (kConfig.cluster == 1) {
    if (lane == 0) sm90::arrive(shared.empty(stage));
  } else {
    if (lane < kConfig.cluster) sm90::arrive_remote(shared.empty(stage), lane);
  }
}
// The same, of a stage from which the warp loaded, too: bits of what it loaded last.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_release_after(const GroupedSm90Layout<kConfig>& shared, int stage,
                                                           unsigned loaded) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (kConfig.cluster == 1) {
    if (lane == 0) sm90::arrive_after(shared.empty(stage), loaded);
  } else {
    if (lane < kConfig.cluster) sm90::arrive_remote_after(shared.empty(stage), lane, loaded);
  }
}
// What gemm_sm90_skinny_multiply calls; `left`: of no use here, no block leaves before its cluster.
template <GroupedGemmSm90Config kConfig, int kTokens>
__device__ __forceinline__ void gemm_sm90_skinny_release(const GroupedSm90TileLayout<kConfig, kTokens>& shared,
                                                         int stage, int) {
  grouped_sm90_release<kConfig>(shared, stage);
}

}  // namespace tilewright
