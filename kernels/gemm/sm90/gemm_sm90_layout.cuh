// SPDX-License-Identifier: MIT
// What a config of gemm_sm90 fixes: types of its tiles, and where they lie in dynamic shared memory.
#pragma once

#include "gemm/sm90/gemm_sm90_args.hpp"
#include "tile/sm90/operand.cuh"

namespace tilewright {

// kStaging: what D passes through, of a warpgroup.
template <GemmSm90Config kConfig, int kStaging = gemm_sm90_staging_bytes(kConfig)>
struct GemmSm90Layout {
  using A = sm90::Operand<kConfig.dtype, kConfig.a_major, kConfig.tile_m>;
  using B = sm90::Operand<kConfig.dtype, kConfig.b_major, kConfig.tile_n>;
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kConfig.tile_n>;
  static constexpr int kTileK = A::kTileK;
  static constexpr int kStageBytes = A::kBytes + B::kBytes;
  static constexpr int kBlocks = kConfig.cluster_m * kConfig.cluster_n;
  static constexpr int kRows64 = kConfig.tile_m / 64 / kConfig.warpgroups;  // instructions along M of a warpgroup

  unsigned char* base;
  __device__ explicit GemmSm90Layout(unsigned char* memory) : base(memory) {}
  __device__ unsigned char* a(int stage) const { return base + stage * kStageBytes; }
  __device__ unsigned char* b(int stage) const { return a(stage) + A::kBytes; }
  __device__ unsigned char* staging(int warpgroup) const { return a(kConfig.stages) + warpgroup * kStaging; }
  // A slot: the tile, scale and bias of each pair of columns, what a row is multiplied by.
  __device__ GemmSm90Tile& tile(int slot) const {
    return *reinterpret_cast<GemmSm90Tile*>(staging(kConfig.warpgroups) + slot * gemm_sm90_slot_bytes(kConfig));
  }
  __device__ float4* column_factors(int slot) const { return reinterpret_cast<float4*>(&tile(slot) + 1); }
  __device__ float* row_factors(int slot) const {
    return reinterpret_cast<float*>(column_factors(slot) + kConfig.tile_n / 2);
  }
  __device__ sm90::Barrier& full(int stage) const { return reinterpret_cast<sm90::Barrier*>(&tile(kSm90Slots))[stage]; }
  __device__ sm90::Barrier& empty(int stage) const { return full(kConfig.stages + stage); }
  // A slot is told when the tile stands there, brought when scales and bias do, read when every warp that multiplies is done
  // with it.
  __device__ sm90::Barrier& told(int slot) const { return full(2 * kConfig.stages + slot); }
  __device__ sm90::Barrier& brought(int slot) const { return told(kSm90Slots + slot); }
  __device__ sm90::Barrier& read(int slot) const { return told(2 * kSm90Slots + slot); }
  // Scales of a stage's rows of A, then of its blocks of columns of B.
  __device__ float* row_scales(int stage) const {
    return reinterpret_cast<float*>(&read(kSm90Slots)) + stage * gemm_sm90_stage_scales(kConfig);
  }
  __device__ float* block_scales(int stage) const { return row_scales(stage) + kConfig.tile_m; }
};

}  // namespace tilewright
