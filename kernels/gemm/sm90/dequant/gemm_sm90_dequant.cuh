// SPDX-License-Identifier: MIT
// gemm_sm90_dequant: GEMM for Hopper with few rows of A, in 16 bits, and narrow weights that are widened in registers. The
// operands have changed sides as in gemm_sm90_skinny; the weights are wgmma's A, which registers may hold. The copy engine
// brings them as they lie, and A in the order of K that makes a word of weights one thread's.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_multiply.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_tokens.cuh"
#include "gemm/sm90/skinny/gemm_sm90_skinny_output.cuh"
#include "tile/sm90/byte_copy.cuh"
#include "tile/sm90/tma.cuh"

namespace tilewright {

// One thread asks for weights and A, stage by stage: behind the kernels in front, which those that rearrange A have waited for.
template <GemmSm90DequantConfig kConfig>
class GemmSm90DequantBring {
 public:
  __device__ __forceinline__ GemmSm90DequantBring(const GemmSm90DequantArgs& args,
                                                  const GemmSm90DequantLayout<kConfig>& shared)
      : args_(args),
        shared_(shared),
        tokens_(args),
        scales_(args),
        policy_(sm90::read_once(kConfig.packed ? kFragmentBytes
                                               : args.product.gemm.stride_b_n * dtype_bits(kConfig.weight) / 8)),
        fragments_(static_cast<int>(packed_fragments(args.product.gemm.k))),
        packed_group_(static_cast<int64>(fragments_) * kPanelsAside * kFragmentBytes) {}

  __device__ __forceinline__ void run(const SkinnyWork<kConfig.splits>& work) {
    Steps steps(work);
    if (!steps.there()) return tokens_.wait_all_there();
    // One stage only: what is asked for behind many requests comes behind them, also the word that says that A is there.
    ask_weights(steps, 0);
    tokens_.wait_all_there();
    ask_tokens(steps, 0);
    steps.advance();
    for (int stage = 1; stage < kConfig.stages && steps.there(); ++stage, steps.advance()) ask(steps, stage);
    for (sm90::Ring<kConfig.stages> ring; steps.there(); steps.advance(), ring.advance()) {
      sm90::wait(shared_.empty(ring.stage), ring.phase);
      ask(steps, ring.stage);
    }
  }

 private:
  using Layout = GemmSm90DequantLayout<kConfig>;
  using Steps = DequantSteps<kConfig.splits>;
  using Scales = GemmSm90DequantScaleRows<kConfig>;
  static constexpr int kBoxRows = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(kConfig));

  __device__ __forceinline__ void ask(const Steps& steps, int stage) {
    ask_weights(steps, stage);
    ask_tokens(steps, stage);
  }
  __device__ __forceinline__ void ask_weights(const Steps& steps, int stage) {
    const GemmSm90SkinnyArgs& args = args_.product;
    sm90::Barrier& full = shared_.full(stage);
    if (kConfig.packed && steps.k == steps.segment.k0) begin_packed(steps.segment);
    const unsigned bytes = Layout::kTokenBytes + (kConfig.packed ? packed_bytes(steps.k) : Layout::kWeightBytes);
    if (kConfig.scale_row != 0 && steps.k == steps.segment.k0) {
      ask_scales(steps.segment, full, bytes);
    } else {
      sm90::arrive_expect_bytes(full, bytes);
    }
    if constexpr (kConfig.packed) return ask_packed(steps.k, stage);
    const int at = steps.k * kSkinnyRowBytes, n = steps.segment.tile * kBoxRows;
    const int batch = args.batch_b ? steps.segment.batch : 0;
    sm90::load_box_once(args.b, shared_.weights(stage), full, policy_, at, n, batch);
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      sm90::load_box_once(args.b, shared_.weights(stage) + kBoxRows * kSkinnyRowBytes, full, policy_, at,
                          n + static_cast<int>(args.gemm.n / 2), batch);
    }
  }
  // Packed weights of a tile: where the first 64 rows of either half begin, and of how many 64 and sixteen rows there are any. Found
  // once a tile: whoever asks has no time to spare.
  struct PackedTile {
    const unsigned char* from[Scales::kHalves];
    int groups, rest;
  };
  __device__ __forceinline__ void begin_packed(const SkinnySegment& s) {
    const GemmArgs& gemm = args_.product.gemm;
    const int64 of_half = gemm.n / Scales::kHalves, first = static_cast<int64>(s.tile) * kBoxRows,
                left = of_half - first;
    const auto* const entry = static_cast<const unsigned char*>(gemm.b) + s.batch * gemm.stride_b_batch;
    const auto panels = static_cast<int>(packed_panels(left < kBoxRows ? left : kBoxRows));
    packed_.groups = panels / kPanelsAside, packed_.rest = panels % kPanelsAside;
#pragma unroll
    for (int half = 0; half < Scales::kHalves; ++half) {
      packed_.from[half] = entry + (half * of_half + first) / kFragmentGroup * packed_group_;
    }
  }
  __device__ __forceinline__ int fragments_of(int k) const {
    constexpr int kOfStep = Layout::kTileK / kFragmentK;
    const int left = fragments_ - k * kOfStep;
    return left < kOfStep ? left : kOfStep;
  }
  __device__ __forceinline__ unsigned packed_bytes(int k) const {
    const int panels = packed_.groups * kPanelsAside + packed_.rest;
    return static_cast<unsigned>(Scales::kHalves * panels * fragments_of(k) * kFragmentBytes);
  }
  __device__ __forceinline__ void ask_packed(int k, int stage) const {
    const int fragments = fragments_of(k);
    sm90::Barrier& full = shared_.full(stage);
#pragma unroll
    for (int half = 0; half < Scales::kHalves; ++half) {
      unsigned char* to = shared_.weights(stage) + half * kBoxRows * kSkinnyRowBytes;
      const unsigned char* from = packed_.from[half] + static_cast<int64>(k) * Layout::kGroupStage;
#pragma unroll
      for (int group = 0; group < kBoxRows / kFragmentGroup;
           ++group, to += Layout::kGroupStage, from += packed_group_) {
        if (group >= packed_.groups) break;
        sm90::copy_bytes_once(to, from, static_cast<unsigned>(fragments * Layout::kGroupBytes), full, policy_);
      }
    }
    // The last columns of B, fewer than 64: each 128 of K goes to its place.
    const int rest = packed_.rest * kFragmentBytes;
    if (rest == 0) return;
    unsigned char* const to = shared_.weights(stage) + packed_.groups * Layout::kGroupStage;
    const unsigned char* const from =
        packed_.from[0] + packed_.groups * packed_group_ + static_cast<int64>(k) * (Layout::kTileK / kFragmentK) * rest;
    for (int i = 0; i < fragments; ++i) {
      sm90::copy_bytes_once(to + i * Layout::kGroupBytes, from + i * rest, static_cast<unsigned>(rest), full, policy_);
    }
  }
  // Of a tile, with its first stage, of which so many bytes are the stage's.
  __device__ __forceinline__ void ask_scales(const SkinnySegment& s, sm90::Barrier& full, unsigned bytes) {
    DequantScaleSpan spans[Scales::kHalves];
#pragma unroll
    for (int half = 0; half < Scales::kHalves; ++half) {
      spans[half] = scales_.span(s, half);
      bytes += spans[half].bytes;
    }
    sm90::wait(shared_.scales_read(slot_.stage), slot_.phase ^ 1);
    sm90::arrive_expect_bytes(full, bytes);
#pragma unroll
    for (int half = 0; half < Scales::kHalves; ++half) {
      sm90::copy_bytes(Scales::place(shared_, slot_.stage, half), spans[half].from, spans[half].bytes, full);
    }
    slot_.advance();
  }
  __device__ __forceinline__ void ask_tokens(const Steps& steps, int stage) const {
    sm90::copy_bytes(shared_.tokens(stage), tokens_.step(steps.segment.batch, steps.k), Layout::kTokenBytes,
                     shared_.full(stage));
  }

  const GemmSm90DequantArgs& args_;
  const Layout& shared_;
  const GemmSm90DequantTokens<kConfig> tokens_;
  const Scales scales_;
  const unsigned long long policy_;
  const int fragments_;       // of packed weights along K
  const int64 packed_group_;  // bytes of 64 columns of them
  PackedTile packed_;
  sm90::Ring<kDequantScaleSlots> slot_;
};

template <GemmSm90DequantConfig kConfig>
__device__ __forceinline__ void gemm_sm90_dequant(const GemmSm90DequantArgs& all) {
  const GemmSm90SkinnyArgs& args = all.product;
  using Layout = GemmSm90DequantLayout<kConfig>;
  constexpr GemmSm90SkinnyConfig kSums = gemm_sm90_dequant_sums(kConfig);
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const auto chunks = static_cast<unsigned>((args.gemm.k + Layout::kTileK - 1) / Layout::kTileK);
  constexpr int kConsumers = kConfig.warpgroups * 4;  // warps; those behind them bring what they want
  constexpr int kMeeting = 7, kFactors = 8;           // named barriers
  SkinnyWork<kConfig.splits> work(args, kConfig.rows, chunks);

  // All meet behind the release of this block's share of A: it waits for copies that are under way.
  if (warp == kConsumers) {
    if (sm90::elect_one()) {
      if constexpr (!kConfig.packed) sm90::prefetch_map(args.b);
      for (int stage = 0; stage < kConfig.stages; ++stage) {
        sm90::init(shared.full(stage), 1 + 32 * gemm_sm90_dequant_scale_warps(kConfig));
        sm90::init(shared.empty(stage), kConsumers);
      }
      for (int slot = 0; slot < kDequantScaleSlots; ++slot) sm90::init(shared.scales_read(slot), kConsumers);
      sm90::fence_barrier_init();
    }
    __syncwarp();
    sm90::named_barrier(kMeeting, gemm_sm90_dequant_threads(kConfig));
    sm90::allow_next_kernel();
    if (sm90::elect_one()) GemmSm90DequantBring<kConfig>(all, shared).run(work);
  } else if (warp > kConsumers) {
    sm90::wait_for_previous_kernel();
    sm90::named_barrier(kMeeting, gemm_sm90_dequant_threads(kConfig));
    sm90::allow_next_kernel();
    if constexpr (gemm_sm90_dequant_scale_warps(kConfig) != 0) GemmSm90DequantScales<kConfig>(all, shared).bring(work);
  } else {
    sm90::wait_for_previous_kernel();
    GemmSm90DequantTokens<kConfig>(all).rearrange();
    sm90::named_barrier(kMeeting, gemm_sm90_dequant_threads(kConfig));
    sm90::allow_next_kernel();
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
