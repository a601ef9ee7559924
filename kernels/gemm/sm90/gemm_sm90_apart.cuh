// SPDX-License-Identifier: MIT
// gemm_sm90: the sums of a tile of 8-bit floats, each stage summed apart, scaled and added. One warpgroup adds while the other
// multiplies: where additions take longer than the other's products the tensor cores rest. So what is between one product and the
// next is kept short:
// * all that is the same in a warp stays in uniform registers;
// * sums are no registers that wgmma writes. Those stand side by side at even places, and a sum with the same parity as what is
//   added and its scale would be three reads of one bank of registers. Free, the compiler finds better places - if nothing at all in
//   the kernel spills.
#pragma once

#include "gemm/sm90/gemm_sm90_multiply.cuh"
#include "gemm/sm90/gemm_sm90_scales.cuh"
#include "tile/sm90/promote.cuh"

namespace tilewright {

// A warpgroup. begin() runs beside the first product of the first step, while `sum` is what it was; end() beside the last product of
// the last step where there are `several`, when all sums but those of the last product are whole.
template <GemmSm90Config kConfig, int kRows64, int kCount, class Begin, class End>
__device__ __forceinline__ void gemm_sm90_multiply_apart(const GemmSm90Layout<kConfig>& shared,
                                                         GemmSm90Stages<kConfig>& stages, int steps, int warpgroup,
                                                         int first_column, float (&sum)[kRows64][kCount],
                                                         const Begin& begin, const End& end) {
  using Layout = GemmSm90Layout<kConfig>;
  constexpr int kColumns = gemm_sm90_columns_at_once(kConfig);
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kColumns>;
  // A stage goes back before its last sums are added, and steps stand four times; halves of 112 columns leave no registers
  // for that.
  constexpr bool kEarly = kColumns != 112;
  [[maybe_unused]] constexpr int kUnroll = kEarly ? 4 : 1;
  // Of several blocks' scales the last may still be on its way when the products are done.
  constexpr int kBlocks = kConfig.promote == Promotion::kScaled ? GemmSm90Scale<kConfig>::kBlocks : 0;
  const GemmSm90TileScales<kConfig> scales(shared, warpgroup, first_column);
  float apart[kColumns / 2];  // the first product overwrites

  const auto step = [&]<bool kFirst, bool kLast>() {
    stages.wait();
#pragma unroll
    for (int r = 0; r < kRows64; ++r) {
#pragma unroll
      for (int n = 0; n < kConfig.tile_n; n += kColumns) {
        const bool first = r == 0 && n == 0, last = r == kRows64 - 1 && n == kConfig.tile_n - kColumns;
        // Before the products, which leave shared memory little time for others.
        auto scale = scales.of(stages.stage(), r, n);
        sm90::begin_apart<Wgmma, Layout::kTileK>(apart, stages.a(r), stages.b(n));
        if (kFirst && first) begin();
        if (kLast && last) end();
        sm90::wait_products<0>();
        sm90::pin(apart);
        scale.pin();
        if constexpr (kBlocks > 1) {
          if (kEarly && last) stages.release_after(stages.stage(), scale.bits());
        } else if (kEarly && last) {
          stages.release(stages.stage());
        }
        if (kFirst) {
          scale.begin(&sum[r][n / 2], apart);
        } else {
          scale.add(&sum[r][n / 2], apart);
        }
        if (!kEarly && last) stages.release(stages.stage());
      }
    }
    stages.advance();
  };
  stages.settle();
  step.template operator()<true, false>();
  if (steps == 1) return;
#pragma unroll kUnroll
  for (int i = 2; i < steps; ++i) step.template operator()<false, false>();
  step.template operator()<false, true>();
}

}  // namespace tilewright
