// SPDX-License-Identifier: MIT
// gemm_sm90_skinny: GEMM for Hopper with few rows of A. The operands change sides: weights are the 64-row side of wgmma,
// the rows of A (tokens) its N side, and D comes out transposed. What counts is how fast weights stream: one thread asks
// the copy engine for tiles, the warpgroups multiply, and K is cut among blocks so that all stream alike.
#pragma once

#include "gemm/sm90/gemm_sm90_skinny_output.cuh"
#include "tile/sm90/operand.cuh"
#include "tile/sm90/promote.cuh"
#include "tile/sm90/ring.cuh"

namespace tilewright {

template <GemmSm90SkinnyConfig kConfig>
struct GemmSm90SkinnyLayout {
  using B = sm90::Operand<kConfig.dtype, Major::kK, kConfig.rows>;
  using A = sm90::Operand<kConfig.dtype, Major::kK, kConfig.tokens>;
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kConfig.tokens>;
  static constexpr int kTileK = A::kTileK;
  static constexpr int kStageBytes = A::kBytes + B::kBytes;
  static constexpr int kWarpgroups = gemm_sm90_skinny_warpgroups(kConfig);
  static constexpr int kThreads = kWarpgroups * 128;              // that multiply
  static constexpr int kParts = kConfig.rows / 64 / kWarpgroups;  // of 64 rows a warpgroup

  unsigned char* base;
  __device__ explicit GemmSm90SkinnyLayout(unsigned char* memory) : base(memory) {}
  __device__ unsigned char* b(int stage) const { return base + stage * kStageBytes; }
  __device__ unsigned char* a(int stage) const { return b(stage) + B::kBytes; }
  __device__ float* box(int warp) const {
    return reinterpret_cast<float*>(b(kConfig.stages) + warp * gemm_sm90_skinny_box_bytes(kConfig));
  }
  __device__ float* factors() const { return box(4 * kWarpgroups); }
  __device__ sm90::Barrier& full(int stage) const {
    return reinterpret_cast<sm90::Barrier*>(factors() + kConfig.tokens)[stage];
  }
  __device__ sm90::Barrier& empty(int stage) const { return full(kConfig.stages + stage); }
};

// The producer, one thread.
template <GemmSm90SkinnyConfig kConfig>
class GemmSm90SkinnyProducer {
 public:
  using Layout = GemmSm90SkinnyLayout<kConfig>;
  static constexpr int kDRows = kConfig.gate == GateMode::kNone ? kConfig.rows : kConfig.rows / 2;

  __device__ GemmSm90SkinnyProducer(const GemmSm90SkinnyArgs& args, const Layout& shared, int block, int chunks)
      : args_(args),
        shared_(shared),
        block_(block),
        chunks_(chunks),
        policy_a_(sm90::cache_policy<sm90::CachePolicy::kEvictLast>()),
        policy_b_(sm90::cache_policy<sm90::CachePolicy::kEvictFirst>()) {}

  // Weights of the first stages: they wait for no kernel in front.
  __device__ __forceinline__ void begin() {
    SkinnyWork work(args_, kConfig.rows * kConfig.cluster, chunks_);
    SkinnySegment s;
    int stage = 0;
    while (stage < kConfig.stages && work.take(s)) {
      for (int k = s.k0; k < s.k1 && stage < kConfig.stages; ++k, ++stage) load_weights(s, k, stage);
    }
  }
  __device__ __forceinline__ void run() {
    SkinnyWork work(args_, kConfig.rows * kConfig.cluster, chunks_);
    SkinnySegment s;
    sm90::Ring<kConfig.stages> ring;
    bool first = true;
    while (work.take(s)) {
      for (int k = s.k0; k < s.k1; ++k) {
        if (!first) {
          sm90::wait(shared_.empty(ring.stage), ring.phase ^ 1);
          load_weights(s, k, ring.stage);
        }
        load_tokens(s, k, ring.stage);
        ring.advance();
        if (ring.phase != 0) first = false;
      }
    }
  }

 private:
  __device__ __forceinline__ void load_weights(const SkinnySegment& s, int k, int stage) {
    sm90::Barrier& full = shared_.full(stage);
    sm90::arrive_expect_bytes(full, Layout::kStageBytes);
    const int tile = s.tile * kConfig.cluster + block_, batch = args_.batch_b ? s.batch : 0;
    if constexpr (kConfig.gate == GateMode::kSeparated) {
#pragma unroll
      for (int i = 0; i < kConfig.rows / 16; ++i) {
        const int n = tile * kDRows + i * 8;
        unsigned char* const to = shared_.b(stage) + i * 16 * kSkinnyRowBytes;
        sm90::load_box(args_.b, to, full, policy_b_, k * Layout::kTileK, n, batch);
        sm90::load_box(args_.b, to + 8 * kSkinnyRowBytes, full, policy_b_, k * Layout::kTileK,
                       n + static_cast<int>(args_.gemm.n / 2), batch);
      }
    } else {
      sm90::load_box(args_.b, shared_.b(stage), full, policy_b_, k * Layout::kTileK, tile * kConfig.rows, batch);
    }
  }
  __device__ __forceinline__ void load_tokens(const SkinnySegment& s, int k, int stage) {
    sm90::Barrier& full = shared_.full(stage);
    const int batch = args_.batch_a ? s.batch : 0;
    if constexpr (kConfig.cluster == 1) {
      sm90::load_box(args_.a, shared_.a(stage), full, policy_a_, k * Layout::kTileK, 0, batch);
    } else {
      constexpr int kSlice = kConfig.tokens / kConfig.cluster;
      sm90::load_box_multicast(args_.a, shared_.a(stage) + block_ * kSlice * kSkinnyRowBytes, full, policy_a_,
                               (1u << kConfig.cluster) - 1, k * Layout::kTileK, block_ * kSlice, batch);
    }
  }

  const GemmSm90SkinnyArgs& args_;
  const Layout& shared_;
  const int block_, chunks_;
  const unsigned long long policy_a_, policy_b_;
};

// A warp is done with a stage: says so to the blocks of the cluster, whose producers bring it.
template <GemmSm90SkinnyConfig kConfig>
__device__ __forceinline__ void gemm_sm90_skinny_release(const GemmSm90SkinnyLayout<kConfig>& shared, int stage) {
  const int lane = threadIdx.x % 32;
  if constexpr (kConfig.cluster == 1) {
    if (lane == 0) sm90::arrive(shared.empty(stage));
  } else {
    if (lane < kConfig.cluster) sm90::arrive_remote(shared.empty(stage), lane);
  }
}

// The same as gemm_sm90_skinny_multiply for 8-bit floats: each stage is summed apart.
template <GemmSm90SkinnyConfig kConfig, int kParts, int kCount>
__device__ __forceinline__ void gemm_sm90_skinny_multiply_apart(const GemmSm90SkinnyLayout<kConfig>& shared,
                                                                sm90::Ring<kConfig.stages>& ring, int steps,
                                                                int warpgroup, float (&sum)[kParts][kCount]) {
  using Layout = GemmSm90SkinnyLayout<kConfig>;
  constexpr int kTokens = sm90::promoted_columns(kConfig.tokens, 64);
  using Wgmma = sm90::WgmmaInstruction<kConfig.dtype, kConfig.dtype, kTokens>;
  float apart[kTokens / 2];  // the first product overwrites
  for (int step = 0; step < steps; ++step) {
    sm90::wait(shared.full(ring.stage), ring.phase);
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const unsigned long long weights =
          Layout::B::descriptor_at(shared.b(ring.stage), (p * Layout::kWarpgroups + warpgroup) * 64);
#pragma unroll
      for (int m = 0; m < kConfig.tokens; m += kTokens) {
        sm90::add_products<Wgmma, Layout::kTileK>(&sum[p][m / 2], apart, weights,
                                                  Layout::A::descriptor_at(shared.a(ring.stage), m));
      }
    }
    gemm_sm90_skinny_release(shared, ring.stage);
    ring.advance();
  }
}

// A warpgroup: the sums of its rows over a segment; part p of them is rows [64 (p kWarpgroups + warpgroup), + 64).
template <GemmSm90SkinnyConfig kConfig, class Accumulator, int kParts, int kCount>
__device__ __forceinline__ void gemm_sm90_skinny_multiply(const GemmSm90SkinnyLayout<kConfig>& shared,
                                                          sm90::Ring<kConfig.stages>& ring, int steps, int warpgroup,
                                                          Accumulator (&sum)[kParts][kCount]) {
  using Layout = GemmSm90SkinnyLayout<kConfig>;
  const auto release = [&](int stage) { gemm_sm90_skinny_release(shared, stage); };
  int before = 0;
  for (int step = 0; step < steps; ++step) {
    sm90::wait(shared.full(ring.stage), ring.phase);
    const unsigned long long tokens = Layout::A::descriptor_at(shared.a(ring.stage), 0);
#pragma unroll
    for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
    sm90::begin_products();
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const unsigned long long weights =
          Layout::B::descriptor_at(shared.b(ring.stage), (p * Layout::kWarpgroups + warpgroup) * 64);
#pragma unroll
      for (int k = 0; k < Layout::kTileK / Layout::Wgmma::kK; ++k) {
        Layout::Wgmma::template multiply<0, 0>(sum[p], weights + k * sm90::kDescriptorStep<Major::kK>,
                                               tokens + k * sm90::kDescriptorStep<Major::kK>, true);
      }
    }
    sm90::commit_products();
#pragma unroll
    for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
    sm90::wait_products<1>();
    if (step > 0) release(before);
    before = ring.stage;
    ring.advance();
  }
  sm90::wait_products<0>();
#pragma unroll
  for (int p = 0; p < kParts; ++p) sm90::pin(sum[p]);
  if (steps > 0) release(before);
}

template <GemmSm90SkinnyConfig kConfig>
__device__ __forceinline__ void gemm_sm90_skinny(const GemmSm90SkinnyArgs& args) {
  using Layout = GemmSm90SkinnyLayout<kConfig>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const Layout shared(dynamic_shared);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const int block = kConfig.cluster == 1 ? 0 : static_cast<int>(sm90::block_in_cluster());
  const int chunks = static_cast<int>((args.gemm.k + Layout::kTileK - 1) / Layout::kTileK);
  const bool is_producer = warp == Layout::kWarpgroups * 4;

  // The producer makes the barriers and asks for weights before anybody meets.
  GemmSm90SkinnyProducer<kConfig> producer(args, shared, block, chunks);
  const bool asks = is_producer && sm90::elect_one();
  if (asks) {
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      sm90::init(shared.full(stage), 1);
      sm90::init(shared.empty(stage), kConfig.cluster * Layout::kWarpgroups * 4);
    }
    sm90::fence_barrier_init();
    producer.begin();
  }
  if constexpr (kConfig.cluster > 1) {
    sm90::meet_cluster();
  } else {
    __syncthreads();
  }
  sm90::allow_next_kernel();
  sm90::wait_for_previous_kernel();

  if (is_producer) {
    if (asks) producer.run();
  } else {
    const int warpgroup = warp / 4;
    sm90::Ring<kConfig.stages> ring;
    SkinnyWork work(args, kConfig.rows * kConfig.cluster, chunks);
    GemmSm90SkinnyOutput<kConfig> output(args, shared.box(warp), shared.factors(), block);
    SkinnySegment s;
    int batch = -1;
    while (work.take(s)) {
      // What varies by token, once for all tiles of a matrix.
      if constexpr (kConfig.epilogue == EpilogueKind::kLinear) {
        if (s.batch != batch) {
          const GemmEpilogue<gemm_sm90_skinny_epilogue(kConfig)> epilogue(args.gemm.epilogue, args.gemm.m, args.gemm.n,
                                                                          s.batch);
          sm90::named_barrier(8, Layout::kThreads);
          for (int m = threadIdx.x; m < kConfig.tokens; m += Layout::kThreads) {
            shared.factors()[m] = epilogue.row(m).factor;
          }
          sm90::named_barrier(8, Layout::kThreads);
          batch = s.batch;
        }
      }
      const SkinnyShare share = work.share(s);
      const int d0 = (s.tile * kConfig.cluster + block) * GemmSm90SkinnyProducer<kConfig>::kDRows;
      // Zeros, not a first product that overwrites: ptxas answers sums that reach back to another tile by serialised
      // products.
      typename Layout::Wgmma::Accumulator sum[Layout::kParts][kConfig.tokens / 2] = {};
      typename GemmSm90SkinnyOutput<kConfig>::Columns columns[Layout::kParts];
#pragma unroll
      for (int p = 0; p < Layout::kParts; ++p) columns[p] = output.columns(p, s.batch, d0);
      if constexpr (sm90::promotes(kConfig.dtype)) {
        gemm_sm90_skinny_multiply_apart<kConfig>(shared, ring, s.k1 - s.k0, warpgroup, sum);
      } else {
        gemm_sm90_skinny_multiply<kConfig>(shared, ring, s.k1 - s.k0, warpgroup, sum);
      }
#pragma unroll
      for (int p = 0; p < Layout::kParts; ++p) output.write(sum[p], columns[p], p, share, s.batch, d0);
    }
  }
  // No block leaves while the other one still arrives at its barriers.
  if constexpr (kConfig.cluster > 1) {
    __syncwarp();
    sm90::meet_cluster();
  }
}

}  // namespace tilewright
