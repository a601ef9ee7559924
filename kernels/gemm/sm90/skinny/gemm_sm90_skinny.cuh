// SPDX-License-Identifier: MIT
// gemm_sm90_skinny: GEMM for Hopper with few rows of A. The operands change sides: weights are the 64-row side of wgmma,
// the rows of A (tokens) its N side, and D comes out transposed. What counts is how fast weights stream: one thread asks
// the copy engine for tiles, the warpgroups multiply, and K is cut among blocks so that all stream alike.
#pragma once

#include "gemm/sm90/skinny/gemm_sm90_skinny_output.cuh"
#include "tile/portable/kernel_edges.cuh"
#include "tile/sm90/operand.cuh"
#include "tile/sm90/promote.cuh"
#include "tile/sm90/ring.cuh"
#include "tile/sm90/word_copy.cuh"

namespace tilewright {

// A stage: for each of `depth` tiles of 128 bytes of K all rows of the weights; then the same of A.
template <GemmSm90SkinnyConfig kConfig>
struct GemmSm90SkinnyLayout {
  using B = sm90::Operand<kConfig.dtype, Major::kK, kConfig.rows>;
  using A = sm90::Operand<kConfig.dtype, Major::kK, kConfig.tokens>;
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kConfig.tokens>;
  static constexpr int kTileK = A::kTileK, kStepK = kTileK * kConfig.depth;
  static constexpr int kStageBytes = kConfig.depth * (A::kBytes + B::kBytes);
  static constexpr int kThreads = kConfig.warpgroups * 128;              // that multiply
  static constexpr int kParts = kConfig.rows / 64 / kConfig.warpgroups;  // of 64 rows a warpgroup

  static constexpr bool kMeet = gemm_sm90_skinny_parts_meet(kConfig);
  static constexpr int kSharers = gemm_sm90_skinny_sharers(kConfig);

  unsigned char* base;
  __device__ explicit GemmSm90SkinnyLayout(unsigned char* memory) : base(memory) {}
  __device__ unsigned char* b(int stage, int tile) const { return base + stage * kStageBytes + tile * B::kBytes; }
  __device__ unsigned char* a(int stage, int tile) const { return b(stage, kConfig.depth) + tile * A::kBytes; }
  __device__ uint4* met_sums() const { return reinterpret_cast<uint4*>(base + kConfig.stages * kStageBytes); }
  __device__ unsigned char* box(int warp) const {
    return base + kConfig.stages * kStageBytes + gemm_sm90_skinny_met_bytes(kConfig) +
           warp * gemm_sm90_skinny_box_bytes(kConfig);
  }
  __device__ float* factors() const { return reinterpret_cast<float*>(box(4 * kConfig.warpgroups)); }
  // A stage's weights are there; its part of A.
  __device__ sm90::Barrier& full(int stage) const {
    return reinterpret_cast<sm90::Barrier*>(factors() + kConfig.tokens)[stage];
  }
  __device__ sm90::Barrier& full_a(int stage) const { return full(kConfig.stages + stage); }
  // Free for weights: the block's own warps have read them; for A: those of all blocks that share it.
  __device__ sm90::Barrier& empty(int stage) const { return full(2 * kConfig.stages + stage); }
  __device__ sm90::Barrier& empty_a(int stage) const { return full((kSharers > 1 ? 3 : 2) * kConfig.stages + stage); }
  // A has been asked for, as far as the ring goes.
  __device__ sm90::Barrier& a_asked() const { return full(4 * kConfig.stages); }
  // The sums of the other parts are there.
  __device__ sm90::Barrier& met() const { return full(4 * kConfig.stages + 1); }
  // Scales of the tokens, and of the weights' blocks.
  __device__ float* token_scales(int stage, int tile) const {
    return reinterpret_cast<float*>(&a_asked() + (kMeet ? 2 : 1)) + (stage * kConfig.depth + tile) * kConfig.tokens;
  }
  __device__ float* block_scales(int stage, int tile) const {
    return token_scales(kConfig.stages, 0) + (stage * kConfig.depth + tile) * gemm_sm90_skinny_scale_blocks(kConfig);
  }
  // Part p of a warpgroup's rows is rows [64 (p warpgroups + warpgroup), + 64).
  __device__ unsigned long long weights(int stage, int tile, int part, int warpgroup) const {
    return B::descriptor_at(b(stage, tile), (part * kConfig.warpgroups + warpgroup) * 64);
  }
};

// The producers: one thread asks for weights, which wait for no kernel in front; another one for A.
template <GemmSm90SkinnyConfig kConfig>
class GemmSm90SkinnyProducer {
 public:
  using Layout = GemmSm90SkinnyLayout<kConfig>;

  __device__ GemmSm90SkinnyProducer(const GemmSm90SkinnyArgs& args, const Layout& shared, int block, int chunks)
      : args_(args), shared_(shared), block_(block), chunks_(chunks) {}

  __device__ __forceinline__ void bring_weights() {
    const unsigned long long policy = sm90::evict_first();
    int asked = 0;
    each_step([&](const SkinnySegment& s, int k, sm90::Ring<kConfig.stages> ring) {
      sm90::wait(shared_.empty(ring.stage), ring.phase ^ 1);
      if (asked < kConfig.stages) {
        // The copy engine serves in order: A would come behind all weights that wait in it.
        if (asked >= kWindow) wait_for_weights_or_a(ring.stage - kWindow);
        ++asked;
      }
      load_weights(s, k, ring.stage, policy);
    });
  }
  // Where tiles have scales, all threads of the warp ask for them; `leads`: the one that does the rest.
  __device__ __forceinline__ void bring_tokens(bool leads) {
    int asked = 0;
    [[maybe_unused]] Scales scales;
    each_step([&](const SkinnySegment& s, int k, sm90::Ring<kConfig.stages> ring) {
      sm90::wait(shared_.empty_a(ring.stage), ring.phase ^ 1);
      if (leads) load_tokens(s, k, ring.stage);
      if constexpr (kConfig.promote == Promotion::kScaled) {
        if (k == s.k0) scales = scales_of(s);
        load_scales(scales, k, ring.stage);
      }
      if (++asked == kConfig.stages && leads) sm90::arrive(shared_.a_asked());
    });
    if (asked < kConfig.stages && leads) sm90::arrive(shared_.a_asked());
  }

 private:
  static constexpr int kSharers = Layout::kSharers;
  // Stages of weights on their way while A waits for the kernel in front: what keeps memory busy.
  static constexpr int kStageWeights = kConfig.depth * Layout::B::kBytes;
  static constexpr int kWindow = (48 * 1024 + kStageWeights - 1) / kStageWeights;

  __device__ __forceinline__ void wait_for_weights_or_a(int stage) const {
    while (!sm90::is_complete(shared_.full(stage), 0) && !sm90::is_complete(shared_.a_asked(), 0)) {
    }
  }
  template <class Visit>
  __device__ __forceinline__ void each_step(const Visit& visit) {
    SkinnyWork<kConfig.splits, Layout::kMeet> work(args_, kConfig.rows * kSharers, chunks_);
    SkinnySegment s;
    sm90::Ring<kConfig.stages> ring;
    while (work.take(s)) {
      for (int k = s.k0; k < s.k1; ++k) {
        visit(s, k, ring);
        ring.advance();
      }
    }
  }
  __device__ __forceinline__ void load_weights(const SkinnySegment& s, int k, int stage, unsigned long long policy) {
    sm90::Barrier& full = shared_.full(stage);
    sm90::arrive_expect_bytes(full, kConfig.depth * Layout::B::kBytes);
    const int tile = s.tile * kSharers + block_, batch = args_.batch_b ? s.batch : 0;
    constexpr int kBoxRows = gemm_sm90_skinny_box_rows(kConfig);
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      const int at = k * Layout::kStepK + i * Layout::kTileK, n = tile * kBoxRows;
      unsigned char* const to = shared_.b(stage, i);
      sm90::load_box_once(args_.b, to, full, policy, at, n, batch);
      if constexpr (kConfig.gate == GateMode::kSeparated) {
        sm90::load_box_once(args_.b, to + kBoxRows * kSkinnyRowBytes, full, policy, at,
                            n + static_cast<int>(args_.gemm.n / 2), batch);
      }
    }
  }
  __device__ __forceinline__ void load_tokens(const SkinnySegment& s, int k, int stage) {
    sm90::Barrier& full = shared_.full_a(stage);
    sm90::arrive_expect_bytes(full, static_cast<unsigned>(args_.stage_tokens) * (kConfig.depth * kSkinnyRowBytes));
    const int batch = args_.batch_a ? s.batch : 0;
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      const int at = k * Layout::kStepK + i * Layout::kTileK;
      if constexpr (kSharers == 1) {
        sm90::load_box(args_.a, shared_.a(stage, i), full, at, 0, batch);
      } else {
        constexpr int kSlice = kConfig.tokens / kSharers;
        sm90::load_box_multicast(args_.a, shared_.a(stage, i) + block_ * kSlice * kSkinnyRowBytes, full,
                                 (1u << kSharers) - 1, at, block_ * kSlice, batch);
      }
    }
  }

  // A thread's scales, which it asks for tile of K by tile of K: of some tokens, and of a block of the weights.
  static constexpr int kScaleTokens = (kConfig.tokens + 31) / 32;
  struct Scales {
    const float* token[kScaleTokens];
    const float* block;
    bool has_token[kScaleTokens], has_block;
  };
  __device__ __forceinline__ Scales scales_of(const SkinnySegment& s) const {
    const int lane = threadIdx.x % 32;
    const GemmBlockScale &a = args_.scale.a, &b = args_.scale.b;
    const int64 tile = s.k0 * kConfig.depth;
    Scales scales;
#pragma unroll
    for (int i = 0; i < kScaleTokens; ++i) {
      const int token = lane + i * 32;
      scales.has_token[i] = token < args_.gemm.m;
      scales.token[i] = static_cast<const float*>(a.data) + s.batch * a.stride_batch + tile * a.stride_k;
      if (scales.has_token[i]) scales.token[i] += token * a.stride_outer;
    }
    int64 n = static_cast<int64>(s.tile * kSharers + block_) * gemm_sm90_skinny_box_rows(kConfig);
    n += kConfig.gate == GateMode::kSeparated ? lane * (args_.gemm.n / 2) : lane * kPromotedScaleBlock;
    scales.has_block = n < args_.gemm.n;
    scales.block = static_cast<const float*>(b.data) + s.batch * b.stride_batch + tile * b.stride_k;
    if (scales.has_block) scales.block += n / kPromotedScaleBlock * b.stride_outer;
    return scales;
  }
  // Of the next stage.
  __device__ __forceinline__ void load_scales(Scales& scales, int k, int stage) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      // The last stage may reach past K.
      const bool inside = i == 0 || (k * kConfig.depth + i) * kPromotedScaleBlock < args_.gemm.k;
#pragma unroll
      for (int j = 0; j < kScaleTokens; ++j) {
        if (lane + j * 32 < kConfig.tokens) {
          sm90::copy_word(shared_.token_scales(stage, i) + lane + j * 32, scales.token[j],
                          inside && scales.has_token[j]);
        }
        scales.token[j] += args_.scale.a.stride_k;
      }
      if (lane < gemm_sm90_skinny_scale_blocks(kConfig)) {
        sm90::copy_word(shared_.block_scales(stage, i) + lane, scales.block, inside && scales.has_block);
      }
      scales.block += args_.scale.b.stride_k;
    }
    sm90::arrive_with_words(shared_.full_a(stage));
  }

  const GemmSm90SkinnyArgs& args_;
  const Layout& shared_;
  const int block_, chunks_;
};

// A warp is done with a stage, the `left`-th of its last ones, and says so to who brings the next into it: none, at the
// end. So no block arrives at a barrier of one that has left.
template <GemmSm90SkinnyConfig kConfig>
__device__ __forceinline__ void gemm_sm90_skinny_release(const GemmSm90SkinnyLayout<kConfig>& shared, int stage,
                                                         int left) {
  const int lane = threadIdx.x % 32;
  if (lane == 0) sm90::arrive(shared.empty(stage));
  if constexpr (gemm_sm90_skinny_sharers(kConfig) > 1) {
    if (lane < kConfig.cluster && left > kConfig.stages) sm90::arrive_remote(shared.empty_a(stage), lane);
  }
}

// The same as gemm_sm90_skinny_multiply where each tile of K is summed apart, in two places by turns, so that
// one is added while the other is made.
template <GemmSm90SkinnyConfig kConfig, int kParts, int kCount>
__device__ __forceinline__ void gemm_sm90_skinny_multiply_apart(const GemmSm90SkinnyLayout<kConfig>& shared,
                                                                sm90::Ring<kConfig.stages>& ring, int steps, int left,
                                                                int warpgroup, float (&sum)[kParts][kCount]) {
  using Layout = GemmSm90SkinnyLayout<kConfig>;
  constexpr int kTokens = sm90::promoted_columns(kConfig.tokens, 64), kPieces = kConfig.tokens / kTokens;
  constexpr int kUnits = kConfig.depth * kParts * kPieces, kAtOnce = kUnits % 2 == 0 ? 2 : 1;
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kTokens>;
  constexpr bool kScaled = kConfig.promote == Promotion::kScaled;
  float apart[kAtOnce][kTokens / 2];  // the first product overwrites
  // Two tokens of each eight are a thread's. Read before the products, which leave shared memory little time for others.
  [[maybe_unused]] float2 token[kAtOnce][kScaled ? kTokens / 8 : 1];
  [[maybe_unused]] float block[kAtOnce];
  const auto read_scales = [&](int unit) {
    const int tile = unit / kPieces / kParts, part = unit / kPieces % kParts;
    block[unit % kAtOnce] = shared.block_scales(ring.stage, tile)[gemm_sm90_skinny_scale_block(kConfig, part)];
    const auto* const pairs = reinterpret_cast<const float2*>(shared.token_scales(ring.stage, tile));
#pragma unroll
    for (int i = 0; i < kTokens / 8; ++i) {
      token[unit % kAtOnce][i] = pairs[unit % kPieces * (kTokens / 2) + i * 4 + threadIdx.x % 4];
    }
  };
  const auto add = [&](int unit) {
    float* const to = &sum[unit / kPieces % kParts][unit % kPieces * (kTokens / 2)];
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      const float x = apart[unit % kAtOnce][i];
      if constexpr (kScaled) {
        const float2 both = token[unit % kAtOnce][i / 4];
        to[i] = __fmaf_rn(x, (i % 2 == 0 ? both.x : both.y) * block[unit % kAtOnce], to[i]);
      } else {
        to[i] += x;
      }
    }
  };
  for (int step = 0; step < steps; ++step) {
    sm90::wait(shared.full_a(ring.stage), ring.phase);
    sm90::wait(shared.full(ring.stage), ring.phase);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int tile = unit / kPieces / kParts;
      const unsigned long long weights = shared.weights(ring.stage, tile, unit / kPieces % kParts, warpgroup);
      if constexpr (kScaled) read_scales(unit);
      sm90::begin_apart<Wgmma, Layout::kTileK>(
          apart[unit % kAtOnce], weights,
          Layout::A::descriptor_at(shared.a(ring.stage, tile), unit % kPieces * kTokens));
      if (unit + 1 >= kAtOnce) {
        sm90::wait_products<kAtOnce - 1>();
        sm90::pin(apart[(unit + 1) % kAtOnce]);
        add(unit + 1 - kAtOnce);
      }
    }
    if constexpr (kAtOnce > 1) {
      sm90::wait_products<0>();
      sm90::pin(apart[1]);
    }
    gemm_sm90_skinny_release(shared, ring.stage, left - step);
    if constexpr (kAtOnce > 1) add(kUnits - 1);
    ring.advance();
  }
}

// A warpgroup: the sums of its rows over a segment. `Layout`: GemmSm90SkinnyLayout, or another one with such stages.
template <GemmSm90SkinnyConfig kConfig, class Layout, class Accumulator, int kParts, int kCount>
__device__ __forceinline__ void gemm_sm90_skinny_multiply(const Layout& shared, sm90::Ring<kConfig.stages>& ring,
                                                          int steps, int left, int warpgroup,
                                                          Accumulator (&sum)[kParts][kCount]) {
  int before = 0;
  for (int step = 0; step < steps; ++step) {
    sm90::wait(shared.full_a(ring.stage), ring.phase);
    sm90::wait(shared.full(ring.stage), ring.phase);
#pragma unroll
    for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
    sm90::begin_products();
#pragma unroll
    for (int tile = 0; tile < kConfig.depth; ++tile) {
      const unsigned long long tokens = Layout::A::descriptor_at(shared.a(ring.stage, tile), 0);
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const unsigned long long weights = shared.weights(ring.stage, tile, p, warpgroup);
#pragma unroll
        for (int k = 0; k < Layout::kTileK / Layout::Wgmma::kK; ++k) {
          Layout::Wgmma::template multiply<0, 0>(sum[p], weights + k * sm90::kDescriptorStep<Major::kK>,
                                                 tokens + k * sm90::kDescriptorStep<Major::kK>, true);
        }
      }
    }
    sm90::commit_products();
#pragma unroll
    for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
    sm90::wait_products<1>();
    if (step > 0) gemm_sm90_skinny_release(shared, before, left - step + 1);
    before = ring.stage;
    ring.advance();
  }
  sm90::wait_products<0>();
#pragma unroll
  for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
  if (steps > 0) gemm_sm90_skinny_release(shared, before, left - steps + 1);
}

template <GemmSm90SkinnyConfig kConfig>
__device__ __forceinline__ void gemm_sm90_skinny(const GemmSm90SkinnyArgs& args) {
  using Layout = GemmSm90SkinnyLayout<kConfig>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  constexpr int kSharers = Layout::kSharers;
  const int block = kSharers == 1 ? 0 : static_cast<int>(sm90::block_in_cluster());  // of those with the same tokens
  const GemmSm90SkinnyMeeting<kConfig> meeting(args, shared.met_sums(), shared.met());
  const int chunks = static_cast<int>((args.gemm.k + Layout::kStepK - 1) / Layout::kStepK);
  constexpr int kConsumers = kConfig.warpgroups * 4, kMeeting = 7, kFactors = 8;  // warps; named barriers

  // Who asks for weights makes the barriers, and goes on before the others have met.
  GemmSm90SkinnyProducer<kConfig> producer(args, shared, block, chunks);
  if (warp == kConsumers) {
    if (sm90::elect_one()) {
      sm90::prefetch_map(args.b);
      for (int stage = 0; stage < kConfig.stages; ++stage) {
        sm90::init(shared.full(stage), 1);
        sm90::init(shared.full_a(stage), kConfig.promote == Promotion::kScaled ? 33 : 1);
        sm90::init(shared.empty(stage), kConsumers);
        if (kSharers > 1) sm90::init(shared.empty_a(stage), kSharers * kConsumers);
      }
      sm90::init(shared.a_asked(), 1);
      if constexpr (Layout::kMeet) meeting.expect(static_cast<int>(sm90::block_in_cluster()));
      sm90::fence_barrier_init();
    }
    __syncwarp();
    sm90::named_arrive(kMeeting, gemm_sm90_skinny_threads(kConfig));
  } else {
    if (warp == kConsumers + 1 && sm90::elect_one()) sm90::prefetch_map(args.a);
    sm90::named_barrier(kMeeting, gemm_sm90_skinny_threads(kConfig));
  }
  if constexpr (kConfig.cluster > 1) sm90::arrive_cluster();
  allow_next_kernel();

  constexpr bool kLends = gemm_sm90_skinny_lends(kConfig);
  if (warp >= kConsumers) {
    if constexpr (kLends) sm90::release_registers<40>();
    if (warp == kConsumers && sm90::elect_one()) producer.bring_weights();
    __syncwarp();
    // The other blocks have their barriers before they are used.
    if constexpr (kConfig.cluster > 1) sm90::wait_cluster();
    if (warp == kConsumers + 1) {
      wait_for_previous_kernel();
      const bool leads = sm90::elect_one();
      if (leads || kConfig.promote == Promotion::kScaled) producer.bring_tokens(leads);
    }
  } else {
    if constexpr (kLends) sm90::take_registers<232>();
    wait_for_previous_kernel();
    const int warpgroup = warp / 4;
    sm90::Ring<kConfig.stages> ring;
    SkinnyWork<kConfig.splits, Layout::kMeet> work(args, kConfig.rows * kSharers, chunks);
    GemmSm90SkinnyOutput<kConfig> output(args, shared.box(warp), shared.factors(), block);
    SkinnySegment s;
    int batch = -1, left = kSharers > 1 ? work.steps() : 0;
    while (work.take(s)) {
      // What varies by token and by column is asked for before the products.
      float factor = 1.0f;
      const bool turns = kConfig.epilogue == EpilogueKind::kLinear && s.batch != batch;
      if (turns && threadIdx.x < kConfig.tokens) {
        factor = GemmEpilogue<gemm_sm90_skinny_epilogue(kConfig)>(args.gemm.epilogue, args.gemm.m, args.gemm.n, s.batch)
                     .row(threadIdx.x)
                     .factor;
      }
      const int d0 = (s.tile * kSharers + block) * gemm_sm90_skinny_d_columns(kConfig);
      typename GemmSm90SkinnyOutput<kConfig>::PartColumns columns[Layout::kParts];
#pragma unroll
      for (int p = 0; p < Layout::kParts; ++p) columns[p] = output.columns(p, s.batch, d0);

      // Zeros, not a first product that overwrites: ptxas answers sums that reach back to another tile by serialised
      // products.
      typename Layout::Wgmma::Accumulator sum[Layout::kParts][kConfig.tokens / 2] = {};
      if constexpr (kConfig.promote != Promotion::kNone) {
        gemm_sm90_skinny_multiply_apart<kConfig>(shared, ring, s.k1 - s.k0, left, warpgroup, sum);
      } else {
        gemm_sm90_skinny_multiply<kConfig>(shared, ring, s.k1 - s.k0, left, warpgroup, sum);
      }
      left -= s.k1 - s.k0;
      if (turns) {
        sm90::named_barrier(kFactors, Layout::kThreads);
        if (threadIdx.x < kConfig.tokens) shared.factors()[threadIdx.x] = factor;
        sm90::named_barrier(kFactors, Layout::kThreads);
        batch = s.batch;
      }
      if constexpr (Layout::kMeet) {
        sm90::wait_cluster();  // the other blocks have their barriers; a block has one segment
        output.write_met(sum, columns, meeting, work.share(s), s.batch, d0);
      } else {
        output.write(sum, columns, work.share(s), s.batch, d0);
      }
    }
    if constexpr (kConfig.cluster > 1 && !Layout::kMeet) sm90::wait_cluster();
  }
}

}  // namespace tilewright
