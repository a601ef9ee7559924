// SPDX-License-Identifier: MIT
// Sums of a tile where each 128 bytes of K are summed apart and added in f32, times their scales. One product at a time,
// as wide as there are registers for: while one warpgroup adds, the other multiplies.
#pragma once

#include "grouped_gemm/sm90/grouped_sm90_layout.cuh"

namespace tilewright {

// Scales of a piece of kColumns tokens, of which two of each eight are a thread's: a part of them at a time, two parts by turns.
// The first two are read before the products, which leave shared memory little time for others; for all of them there are no
// registers, so each other one is read while the one before is used.
template <int kColumns>
class GroupedTokenScales {
 public:
  static constexpr int kGroups = kColumns / 8, kGroupsAPart = 4;
  static constexpr int kParts = (kGroups + kGroupsAPart - 1) / kGroupsAPart;

  __device__ __forceinline__ void read(const float* scales, int part) {
    const auto* const from = reinterpret_cast<const float2*>(scales) + threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < kGroupsAPart; ++i) {
      if (part * kGroupsAPart + i >= kGroups) continue;
      const float2 both = from[(part * kGroupsAPart + i) * 4];
      pair_[part % 2][2 * i] = both.x, pair_[part % 2][2 * i + 1] = both.y;
    }
  }
  __device__ __forceinline__ void pin() { sm90::pin(pair_[0]), sm90::pin(pair_[1]); }
  // Bits of all that was read last, in whatever order.
  __device__ __forceinline__ unsigned bits() const {
    unsigned all = 0;
#pragma unroll
    for (int i = 0; i < 2 * kGroupsAPart; ++i) all |= __float_as_uint(pair_[0][i]) | __float_as_uint(pair_[1][i]);
    return all;
  }
  // to += apart * scale: four sums a group, two tokens of two rows.
  __device__ __forceinline__ void add(float* to, const float* apart, float block, int part) const {
#pragma unroll
    for (int i = 0; i < kGroupsAPart; ++i) {
      const int g = part * kGroupsAPart + i;
      if (g >= kGroups) continue;
      const float first = pair_[part % 2][2 * i] * block, second = pair_[part % 2][2 * i + 1] * block;
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        to[4 * g + j] = __fmaf_rn(apart[4 * g + j], first, to[4 * g + j]);
        to[4 * g + j + 1] = __fmaf_rn(apart[4 * g + j + 1], second, to[4 * g + j + 1]);
      }
    }
  }

 private:
  float pair_[2][2 * kGroupsAPart] = {};
};

template <GroupedGemmSm90Config kConfig, int kTokens, int kParts, int kCount>
__device__ __forceinline__ void grouped_sm90_multiply_apart(const GroupedSm90TileLayout<kConfig, kTokens>& shared,
                                                            sm90::Ring<kConfig.stages>& ring, int steps, int warpgroup,
                                                            float (&sum)[kParts][kCount]) {
  using Layout = GroupedSm90TileLayout<kConfig, kTokens>;
  constexpr int kColumns = grouped_apart_tokens(kTokens), kPieces = kTokens / kColumns;
  constexpr bool kScaled = kConfig.promote == Promotion::kScaled;
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kColumns>;
  float apart[kColumns / 2];  // the first product overwrites
  for (int step = 0; step < steps; ++step) {
    sm90::wait(shared.full_a(ring.stage), ring.phase);
    sm90::wait(shared.full(ring.stage), ring.phase);
#pragma unroll
    for (int unit = 0; unit < kConfig.depth * kParts * kPieces; ++unit) {
      const int tile_k = unit / kPieces / kParts, part = unit / kPieces % kParts, piece = unit % kPieces;
      float* const to = &sum[part][piece * (kColumns / 2)];
      const bool last = unit == kConfig.depth * kParts * kPieces - 1;
      [[maybe_unused]] GroupedTokenScales<kColumns> scales;
      [[maybe_unused]] float block[1];
      [[maybe_unused]] const float* const from = shared.token_scales(ring.stage, tile_k) + piece * kColumns;
      if constexpr (kScaled) {
        block[0] = shared.block_scales(ring.stage, tile_k)[gemm_sm90_skinny_scale_block(Layout::kWidest, part)];
        scales.read(from, 0);
        scales.read(from, 1);
      }
      sm90::begin_apart<Wgmma, Layout::kTileK>(
          apart, shared.weights(ring.stage, tile_k, part, warpgroup),
          Layout::A::descriptor_at(shared.a(ring.stage, tile_k), piece * kColumns));
      sm90::wait_products<0>();
      sm90::pin(apart);
      // The stage goes back as soon as nothing more is read from it.
      if constexpr (kScaled) {
        constexpr int kScaleParts = GroupedTokenScales<kColumns>::kParts;
        scales.pin(), sm90::pin(block);
#pragma unroll
        for (int s = 0; s < kScaleParts; ++s) {
          if (last && s == max(0, kScaleParts - 2)) {
            scales.pin();
            grouped_sm90_release_after<kConfig>(shared, ring.stage, scales.bits());
          }
          scales.add(to, apart, block[0], s);
          if (s + 2 < kScaleParts) scales.read(from, s + 2);
        }
      } else {
        if (last) grouped_sm90_release<kConfig>(shared, ring.stage);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) to[i] += apart[i];
      }
    }
    ring.advance();
  }
}

}  // namespace tilewright
