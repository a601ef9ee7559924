// SPDX-License-Identifier: MIT
// gemm_sm90_dequant: GEMM for Hopper with few rows of A, in 16 bits, and narrow weights that are widened in registers. The
// operands have changed sides as in gemm_sm90_skinny; the weights are wgmma's A, which registers may hold. The copy engine
// brings them as they lie; a warpgroup brings A in the order of K that makes a word of weights one thread's.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_multiply.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_tokens.cuh"
#include "gemm/sm90/skinny/gemm_sm90_skinny_output.cuh"
#include "tile/sm90/tma.cuh"

namespace tilewright {

// One thread asks for weights, which wait for no kernel in front.
template <GemmSm90DequantConfig kConfig>
__device__ __forceinline__ void gemm_sm90_dequant_bring_weights(const GemmSm90SkinnyArgs& args,
                                                                const GemmSm90DequantLayout<kConfig>& shared,
                                                                const SkinnyWork<kConfig.splits>& work) {
  constexpr int kBoxRows = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(kConfig));
  const unsigned long long policy = sm90::evict_first();
  sm90::Ring<kConfig.stages> ring;
  for (DequantSteps<kConfig.splits> steps(work); steps.there(); steps.advance()) {
    sm90::wait(shared.empty(ring.stage), ring.phase ^ 1);
    sm90::Barrier& full = shared.full(ring.stage);
    sm90::arrive_expect_bytes(full, gemm_sm90_dequant_weight_bytes(kConfig));
    const int at = steps.k * kSkinnyRowBytes, n = steps.segment.tile * kBoxRows;
    const int batch = args.batch_b ? steps.segment.batch : 0;
    sm90::load_box_once(args.b, shared.weights(ring.stage), full, policy, at, n, batch);
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      sm90::load_box_once(args.b, shared.weights(ring.stage) + kBoxRows * kSkinnyRowBytes, full, policy, at,
                          n + static_cast<int>(args.gemm.n / 2), batch);
    }
    ring.advance();
  }
}

template <GemmSm90DequantConfig kConfig>
__device__ __forceinline__ void gemm_sm90_dequant(const GemmSm90DequantArgs& all) {
  const GemmSm90SkinnyArgs& args = all.product;
  using Layout = GemmSm90DequantLayout<kConfig>;
  constexpr GemmSm90SkinnyConfig kSums = gemm_sm90_dequant_sums(kConfig);
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const auto chunks = static_cast<unsigned>((args.gemm.k + Layout::kTileK - 1) / Layout::kTileK);
  constexpr int kConsumers = kConfig.warpgroups * 4,
                kProducer = kConsumers + gemm_sm90_dequant_loaders(kConfig) / 32;  // warps
  constexpr int kMeeting = 7, kFactors = 8;                                        // named barriers
  SkinnyWork<kConfig.splits> work(args, kConfig.rows, chunks);

  // Who asks for weights makes the barriers, and goes on before the others have met.
  if (warp == kProducer) {
    if (sm90::elect_one()) {
      sm90::prefetch_map(args.b);
      for (int stage = 0; stage < kConfig.stages; ++stage) {
        sm90::init(shared.full(stage), 1);
        sm90::init(shared.empty(stage), kConsumers);
      }
      for (int stage = 0; stage < kConfig.token_stages; ++stage) {
        sm90::init(shared.full_tokens(stage), GemmSm90DequantTokens<kConfig>::kArrivals);
        sm90::init(shared.empty_tokens(stage), kConsumers);
      }
      sm90::fence_barrier_init();
    }
    __syncwarp();
    sm90::named_arrive(kMeeting, gemm_sm90_dequant_threads(kConfig));
  } else {
    sm90::named_barrier(kMeeting, gemm_sm90_dequant_threads(kConfig));
  }
  sm90::allow_next_kernel();

  if (warp == kProducer) {
    if (sm90::elect_one()) gemm_sm90_dequant_bring_weights<kConfig>(args, shared, work);
  } else if (warp >= kConsumers) {
    sm90::wait_for_previous_kernel();
    const int thread = static_cast<int>(threadIdx.x) - kConsumers * 32;
    GemmSm90DequantTokens<kConfig>(args, shared, thread).bring(work);
  } else {
    sm90::wait_for_previous_kernel();
    GemmSm90DequantMultiply<kConfig> product(all, shared);
    GemmSm90SkinnyOutput<kSums> output(args, shared.box(warp), shared.factors(), 0);
    SkinnySegment s;
    int batch = -1;
    while (work.take(s)) {
      // What varies by token and by column is asked for before the products.
      float factor = 1.0f;
      const bool turns = kConfig.epilogue == EpilogueKind::kLinear && s.batch != batch;
      if (turns && threadIdx.x < kConfig.tokens) {
        factor = GemmEpilogue<gemm_sm90_skinny_epilogue(kSums)>(args.gemm.epilogue, args.gemm.m, args.gemm.n, s.batch)
                     .row(threadIdx.x)
                     .factor;
      }
      const int d0 = s.tile * gemm_sm90_skinny_d_columns(kSums);
      typename GemmSm90SkinnyOutput<kSums>::PartColumns columns[Layout::kParts];
#pragma unroll
      for (int p = 0; p < Layout::kParts; ++p) columns[p] = output.columns(p, s.batch, d0);

      float sum[Layout::kParts][kConfig.tokens / 2] = {};
      product.run(s, sum);
      if (turns) {
        sm90::named_barrier(kFactors, Layout::kThreads);
        if (threadIdx.x < kConfig.tokens) shared.factors()[threadIdx.x] = factor;
        sm90::named_barrier(kFactors, Layout::kThreads);
        batch = s.batch;
      }
      output.write(sum, columns, work.share(s), s.batch, d0);
    }
  }
}

}  // namespace tilewright
