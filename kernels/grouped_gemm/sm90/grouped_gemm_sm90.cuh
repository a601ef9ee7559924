// SPDX-License-Identifier: MIT
// grouped_gemm_sm90: GEMM of groups for Hopper. The operands have changed sides, as in gemm_sm90_skinny: weights are the 64-row
// side of wgmma, the rows of A (tokens) its N side, so that a tile has any multiple of 16 tokens and what a group is short of is not
// multiplied. Persistent blocks: a warp walks the groups' numbers and tells the others which tile is next. Blocks of a cluster
// have the same tokens and neighbouring weights: each brings a part of the tokens, for all.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny_view.cuh"
#include "grouped_gemm/sm90/grouped_sm90_load.cuh"
#include "grouped_gemm/sm90/grouped_sm90_promote.cuh"
#include "grouped_gemm/sm90/grouped_sm90_tall.cuh"
#include "tile/portable/kernel_edges.cuh"

namespace tilewright {

// Sums of a tile of kTokens, which stand first among those of the widest.
template <GroupedGemmSm90Config kConfig, int kTokens, class Sum, int kParts, int kCount>
__device__ __forceinline__ void grouped_sm90_multiply(const GroupedSm90Layout<kConfig>& shared,
                                                      sm90::Ring<kConfig.stages>& ring, int chunks, int warpgroup,
                                                      Sum (&all)[kParts][kCount]) {
  const GroupedSm90TileLayout<kConfig, kTokens> layout(shared);
  // Zeros, not a first product that overwrites: as in gemm_sm90_skinny.
  Sum sum[kParts][kTokens / 2] = {};
  if constexpr (kConfig.promote != Promotion::kNone) {
    grouped_sm90_multiply_apart<kConfig, kTokens>(layout, ring, chunks, warpgroup, sum);
  } else {
    gemm_sm90_skinny_multiply<grouped_sm90_product(kConfig, kTokens)>(layout, ring, chunks, 0, warpgroup, sum);
  }
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) all[p][i] = i < kTokens / 2 ? sum[p][i] : Sum{};
  }
}

// By the narrowest products that hold the tile.
template <GroupedGemmSm90Config kConfig, int kTokens, class Sum, int kParts, int kCount>
__device__ __forceinline__ void grouped_sm90_multiply_any(const GroupedSm90Layout<kConfig>& shared,
                                                          sm90::Ring<kConfig.stages>& ring, int tokens, int chunks,
                                                          int warpgroup, Sum (&sum)[kParts][kCount]) {
  if constexpr (kTokens >= kConfig.tokens) {
    grouped_sm90_multiply<kConfig, kConfig.tokens>(shared, ring, chunks, warpgroup, sum);
  } else if (tokens <= kTokens) {
    grouped_sm90_multiply<kConfig, kTokens>(shared, ring, chunks, warpgroup, sum);
  } else {
    grouped_sm90_multiply_any<kConfig, grouped_wider(kConfig, kTokens)>(shared, ring, tokens, chunks, warpgroup, sum);
  }
}

// A tile: sums and D, by the warpgroups that multiply.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_tile(const GroupedGemmSm90Args& args,
                                                  const GroupedSm90Layout<kConfig>& shared,
                                                  sm90::Ring<kConfig.stages>& ring, const GroupedTile& tile, int chunks,
                                                  int warp) {
  using Layout = GroupedSm90TileLayout<kConfig, kConfig.tokens>;
  constexpr GemmSm90SkinnyConfig kProduct = Layout::kWidest;
  using Output = GemmSm90SkinnyOutput<kProduct>;
  constexpr int kFactors = 8;  // a named barrier
  const GemmSm90SkinnyArgs view = gemm_sm90_skinny_view(args.product, tile.row, tile.rows);
  Output output(view, shared.box(warp), shared.factors(), 0);
  // What varies by token and by column is asked for before the products.
  float factor = 1.0f;
  if (kConfig.epilogue == EpilogueKind::kLinear && threadIdx.x < kConfig.tokens) {
    factor = GemmEpilogue<gemm_sm90_skinny_epilogue(kProduct)>(view.gemm.epilogue, view.gemm.m, view.gemm.n, tile.group)
                 .row(threadIdx.x)
                 .factor;
  }
  const int d0 = tile.column * gemm_sm90_skinny_d_columns(kProduct);
  typename Output::PartColumns columns[Layout::kParts];
#pragma unroll
  for (int p = 0; p < Layout::kParts; ++p) columns[p] = output.columns(p, tile.group, d0);

  typename Layout::Wgmma::Accumulator sum[Layout::kParts][kConfig.tokens / 2];
  grouped_sm90_multiply_any<kConfig, kConfig.step>(shared, ring, tile.steps * kConfig.step, chunks, warp / 4, sum);
  if constexpr (kConfig.epilogue == EpilogueKind::kLinear) {
    sm90::named_barrier(kFactors, Layout::kThreads);
    if (threadIdx.x < kConfig.tokens) shared.factors()[threadIdx.x] = factor;
    sm90::named_barrier(kFactors, Layout::kThreads);
  }
  output.write(sum, columns, {0, 0, 1}, tile.group, d0);
}

template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_gemm_sm90(const GroupedGemmSm90Args& args) {
  using Layout = GroupedSm90Layout<kConfig>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const int block = kConfig.cluster == 1 ? 0 : static_cast<int>(sm90::block_in_cluster());
  constexpr int kConsumers = kConfig.warpgroups * 4;  // warps

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      sm90::init(shared.full(stage), 1);
      sm90::init(shared.full_a(stage), kConfig.promote == Promotion::kScaled ? 33 : 1);
      sm90::init(shared.empty(stage), kConfig.cluster * kConsumers);
    }
    for (int slot = 0; slot < kGroupedSlots; ++slot) {
      sm90::init(shared.told(slot), 1);
      sm90::init(shared.read(slot), kGroupedReaders<kConfig>);
    }
    sm90::fence_barrier_init();
  } else if (threadIdx.x == 32) {
    sm90::prefetch_map(args.product.b);
  }
  if constexpr (kConfig.cluster > 1) {
    sm90::meet_cluster();
  } else {
    __syncthreads();
  }
  allow_next_kernel();
  wait_for_previous_kernel();

  if (warp >= kConsumers) {
    sm90::release_registers<grouped_sm90_registers(kConfig).producer>();
    if (warp == kConsumers && sm90::elect_one()) grouped_sm90_bring_weights<kConfig>(args, shared);
    if (warp == kConsumers + 1) {
      const bool leads = sm90::elect_one();
      if (leads || kConfig.promote == Promotion::kScaled) GroupedSm90Tokens<kConfig>(args, shared, block).bring(leads);
    }
    if (warp == kConsumers + 2 && block == 0) grouped_sm90_tell<kConfig>(args, shared);
  } else {
    if constexpr (kConfig.warpgroups > 1) sm90::take_registers<grouped_sm90_registers(kConfig).consumer>();
    const auto chunks = static_cast<int>((args.product.gemm.k + Layout::kStepK - 1) / Layout::kStepK);
    if constexpr (kConfig.tall == GroupedTall::kTokens) {
      grouped_sm90_tall_tiles<kConfig>(args, shared, chunks, warp / 4);
    } else {
      GroupedTold<kConfig> told(shared);
      GroupedTile tile;
      sm90::Ring<kConfig.stages> ring;
      while (told.take(tile)) {
        __syncwarp();
        told.forget(threadIdx.x % 32 == 0);
        grouped_sm90_tile<kConfig>(args, shared, ring, tile, chunks, warp);
      }
    }
  }
  // No block leaves while others of its cluster still arrive at its barriers or write into its memory.
  if constexpr (kConfig.cluster > 1) {
    __syncwarp();
    sm90::meet_cluster();
  }
}

}  // namespace tilewright
