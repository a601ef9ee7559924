// SPDX-License-Identifier: MIT
// Tokens on the 64-row side of wgmma, weights on its columns: then two rows' scales are all that a thread reads for 64 sums,
// where the other way round it reads two for each four, and shared memory has no time for that. What it costs: tokens go by
// 64. D leaves beside the first products of the next tile, as in gemm_sm90.
#pragma once

#include "gemm/sm90/gemm_sm90_scales.cuh"
#include "gemm/sm90/gemm_sm90_words.cuh"
#include "grouped_gemm/sm90/grouped_sm90_load.cuh"

namespace tilewright {

// What a product's sums are multiplied by: 64 tokens from `row` of the tile on, a block of the weights.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ auto grouped_sm90_tall_scale([[maybe_unused]] const GroupedSm90Layout<kConfig>& shared,
                                                        [[maybe_unused]] int stage, [[maybe_unused]] int row,
                                                        [[maybe_unused]] int block) {
  if constexpr (kConfig.promote == Promotion::kScaled) {
    GemmSm90Scale<grouped_sm90_words(kConfig)> scale;
    const float* const rows = shared.token_scales(stage, 0) + row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    scale.upper_row[0] = rows[0], scale.lower_row[0] = rows[8];
    scale.block[0] = shared.block_scales(stage, 0)[block];
    scale.inside = 0;
    return scale;
  } else {
    return GemmSm90NoScale{};
  }
}

// A warpgroup: the sums of kParts times 64 tokens, `first` of the tile and those after, neighbours turned where they are scaled.
// beside() runs beside the first products, which go straight into the sums: what is summed apart later leaves registers to it until
// then.
template <GroupedGemmSm90Config kConfig, int kParts, int kMost, int kCount, class Beside>
__device__ __forceinline__ void grouped_sm90_tall_multiply(const GroupedSm90Layout<kConfig>& shared,
                                                           sm90::Ring<kConfig.stages>& ring, int steps, int warpgroup,
                                                           int first, float (&sum)[kMost][kCount],
                                                           const Beside& beside) {
  using Layout = GroupedSm90Layout<kConfig>;
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kGroupedTallColumns>;
  constexpr int kPieces = kConfig.rows / kGroupedTallColumns, kSums = kGroupedTallColumns / 2;
  const auto wait = [&] {
    sm90::wait(shared.full_a(ring.stage), ring.phase);
    sm90::wait(shared.full(ring.stage), ring.phase);
  };
  const auto begin = [&](float(&to)[kSums], int part, int piece) {
    sm90::begin_apart<Wgmma, Layout::kTileK>(
        to, Layout::A::descriptor_at(shared.a(ring.stage, 0), (warpgroup * kMost + part) * kGroupedTallStep),
        Layout::B::descriptor_at(shared.b(ring.stage, 0), piece * kGroupedTallColumns));
  };
  const auto scale_of = [&](int part, int piece) {
    return grouped_sm90_tall_scale<kConfig>(shared, ring.stage, first + part * kGroupedTallStep, piece);
  };

  wait();
#pragma unroll
  for (int unit = 0; unit < kParts * kPieces; ++unit) {
    begin(reinterpret_cast<float(&)[kSums]>(sum[unit / kPieces][unit % kPieces * kSums]), unit / kPieces,
          unit % kPieces);
  }
  beside();
  sm90::wait_products<0>();
  unsigned loaded = 0;
#pragma unroll
  for (int unit = 0; unit < kParts * kPieces; ++unit) {
    if (unit % kPieces == 0) sm90::pin(sum[unit / kPieces]);
    if constexpr (kConfig.promote == Promotion::kScaled) {
      const auto scale = scale_of(unit / kPieces, unit % kPieces);
      scale.turn(&sum[unit / kPieces][unit % kPieces * kSums]);
      loaded |= scale.bits();
    }
  }
  grouped_sm90_release_after<kConfig>(shared, ring.stage, loaded);
  ring.advance();

  [[maybe_unused]] float apart[kSums];  // the first product overwrites
#pragma unroll 4
  for (int step = 1; step < steps; ++step) {
    wait();
#pragma unroll
    for (int unit = 0; unit < kParts * kPieces; ++unit) {
      // Before the products, which leave shared memory little time for others.
      auto scale = scale_of(unit / kPieces, unit % kPieces);
      begin(apart, unit / kPieces, unit % kPieces);
      sm90::wait_products<0>();
      sm90::pin(apart);
      scale.pin();
      if (unit == kParts * kPieces - 1) grouped_sm90_release_after<kConfig>(shared, ring.stage, scale.bits());
      scale.add_turned(&sum[unit / kPieces][unit % kPieces * kSums], apart);
    }
    // A warpgroup without tokens.
    if constexpr (kParts == 0) grouped_sm90_release<kConfig>(shared, ring.stage);
    ring.advance();
  }
}

// A warpgroup: all tiles.
template <GroupedGemmSm90Config kConfig>
__device__ __forceinline__ void grouped_sm90_tall_tiles(const GroupedGemmSm90Args& args,
                                                        const GroupedSm90Layout<kConfig>& shared, int chunks,
                                                        int warpgroup) {
  constexpr GemmSm90Config kWords = grouped_sm90_words(kConfig);
  constexpr int kMost = grouped_tall_parts(kConfig), kMeeting = 1;  // the first of the named barriers
  using Output = GemmSm90Words<kWords>;
  using WordsLayout = typename Output::Layout;
  // D as gemm_sm90 sees it: the warpgroup is a block of its own, whose memory behind the stages is ours. Rows end where the
  // tile that is written has its last one.
  GemmSm90Args view{};
  view.gemm = args.product.gemm;
  const WordsLayout words(shared.boxes(warpgroup) - WordsLayout::kStageBytes);
  Output output(view, words, 0);
  const auto write = [&](int slot) {
#pragma unroll
    for (int w = 0; w < Output::kWrites; ++w) output.write(slot, w);
  };

  float sum[kMost][kConfig.rows / 2] = {};
  GroupedTold<kConfig> told(shared);
  GroupedTile tile;
  sm90::Ring<kConfig.stages> ring;
  sm90::Ring<kSm90Slots> slot;
  bool held = false;
  while (told.take(tile)) {
    __syncwarp();
    told.forget(threadIdx.x % 32 == 0);
    const GroupedPiece own = grouped_tall_piece(kConfig, tile.steps, warpgroup);
    // All have written the tile before the last one, and see where the last one is.
    sm90::named_barrier(kMeeting + warpgroup, 128);
    if (threadIdx.x % 128 == 0) {
      words.tile(slot.stage) = {tile.row + own.first, tile.column * kConfig.rows, tile.group, chunks, 0, 1, 0};
    }
    const auto beside = [&] {
      if (held) write(slot.stage ^ 1);
    };
    if (own.steps == kMost) {
      grouped_sm90_tall_multiply<kConfig, kMost>(shared, ring, chunks, warpgroup, own.first, sum, beside);
    } else if (kMost > 1 && own.steps > 0) {
      grouped_sm90_tall_multiply<kConfig, 1>(shared, ring, chunks, warpgroup, own.first, sum, beside);
    } else {
      grouped_sm90_tall_multiply<kConfig, 0>(shared, ring, chunks, warpgroup, own.first, sum, beside);
    }
    view.gemm.m = tile.row + min(tile.rows, own.first + own.steps * kGroupedTallStep);
    output.hold(sum, slot.stage);
    held = true;
    slot.advance();
  }
  if (held) {
    sm90::named_barrier(kMeeting + warpgroup, 128);
    write(slot.stage ^ 1);
  }
}

}  // namespace tilewright
