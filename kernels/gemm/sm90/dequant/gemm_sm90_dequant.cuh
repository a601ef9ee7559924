// SPDX-License-Identifier: MIT
// gemm_sm90_dequant: GEMM for Hopper with few rows of A, in 16 bits, and narrow weights that are widened in registers. The
// operands have changed sides as in gemm_sm90_skinny; the weights are wgmma's A, which registers may hold. The copy engine
// brings them as they lie, and A in the order of K that makes a word of weights one thread's; packed i4 and u4 have A's own.
#pragma once

#include "gemm/sm90/dequant/gemm_sm90_dequant_multiply.cuh"
#include "gemm/sm90/dequant/gemm_sm90_dequant_tokens.cuh"
#include "gemm/sm90/skinny/gemm_sm90_skinny_output.cuh"
#include "tile/portable/kernel_edges.cuh"
#include "tile/sm90/byte_copy.cuh"
#include "tile/sm90/tma.cuh"

namespace tilewright {

// Where the rows of an entry begin in A that comes as it lies.
struct DequantPlace {
  int row, batch;
};

// One thread asks for weights and A, stage by stage: for A behind the kernels in front, which those that rearrange it have waited for.
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
                                               : args.product.gemm.stride_b_n * dtype_bits(kConfig.weight) / 8)) {}

  template <class Entries>
  __device__ __forceinline__ void run(const Entries& entries, const typename Entries::Work& work) {
    DequantSteps<typename Entries::Work> steps(work);
    for (int stage = 0; stage < kEarly && steps.there(); ++stage, steps.advance()) {
      ask_weights(steps.segment, steps.k, stage);
    }
    wait_tokens_there();
    DequantSteps<typename Entries::Work> behind(work);
    for (int stage = 0; stage < kEarly && behind.there(); ++stage, behind.advance()) {
      ask_tokens(entries, behind.segment, behind.k, stage);
    }
    const auto ask = [&](int stage) {
      ask_weights(steps.segment, steps.k, stage);
      ask_tokens(entries, steps.segment, steps.k, stage);
    };
    for (int stage = kEarly; stage < kConfig.stages && steps.there(); ++stage, steps.advance()) ask(stage);
    for (sm90::Ring<kConfig.stages> ring; steps.there(); steps.advance(), ring.advance()) {
      sm90::wait(shared_.empty(ring.stage), ring.phase);
      ask(ring.stage);
    }
  }

 private:
  using Layout = GemmSm90DequantLayout<kConfig>;
  using Scales = GemmSm90DequantScaleRows<kConfig>;
  static constexpr int kBoxRows = gemm_sm90_skinny_box_rows(gemm_sm90_dequant_sums(kConfig));
  // Stages whose weights are asked for before A is there, which comes behind them. Of A that blocks rearrange one only: so does the
  // word that says that it is there.
  static constexpr int kEarlyBytes = 48 * 1024, kInBytes = kEarlyBytes / Layout::kWeightBytes;
  static constexpr int kEarly = !Layout::kInOrder || kInBytes == 0 ? 1
                                : kInBytes < kConfig.stages        ? kInBytes
                                                                   : kConfig.stages;

  // Of a stage.
  __device__ __forceinline__ unsigned token_bytes() const {
    if constexpr (!Layout::kInOrder) return Layout::kTokenBytes;
    return static_cast<unsigned>(args_.product.stage_tokens) * (Layout::kTokenBytes / kConfig.tokens);
  }
  __device__ __forceinline__ void wait_tokens_there() const {
    if constexpr (Layout::kInOrder) {
      wait_for_previous_kernel();
    } else {
      tokens_.wait_all_there();
    }
  }
  __device__ __forceinline__ void ask_weights(const SkinnySegment& s, int k, int stage) {
    const GemmSm90SkinnyArgs& args = args_.product;
    sm90::Barrier& full = shared_.full(stage);
    const unsigned bytes = token_bytes() + Layout::kWeightBytes;
    if (kConfig.scale_row != 0 && k == s.k0) {
      ask_scales(s, full, bytes);
    } else {
      sm90::arrive_expect_bytes(full, bytes);
    }
    const int n = s.tile * kBoxRows, batch = args.batch_b ? s.batch : 0;
    unsigned char* const to = shared_.weights(stage);
    load_weights(to, full, k, n, batch);
    if constexpr (kConfig.gate == GateMode::kSeparated) {
      load_weights(to + kBoxRows * kSkinnyRowBytes, full, k, n + static_cast<int>(args.gemm.n / 2), batch);
    }
  }
  // From row n on: rows of 128 bytes of them, or their fragments.
  __device__ __forceinline__ void load_weights(unsigned char* to, sm90::Barrier& full, int k, int n, int batch) const {
    const TensorMap& map = args_.product.b;
    if constexpr (kConfig.packed) {
      constexpr int kOfStep = Layout::kTileK / kFragmentK * kFragmentsAside;
      sm90::load_box_once(map, to, full, policy_, 0, k * kOfStep, n / kFragmentGroup, batch);
    } else {
      sm90::load_box_once(map, to, full, policy_, k * kSkinnyRowBytes, n, batch);
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
  template <class Entries>
  __device__ __forceinline__ void ask_tokens([[maybe_unused]] const Entries& entries, const SkinnySegment& s, int k,
                                             int stage) const {
    if constexpr (Layout::kInOrder) {
      constexpr int kSlices = Layout::kTileK / kDequantSliceK;
      const DequantPlace place = entries.place(s);
      const int at_once = dequant_slices_at_once(args_.product.stage_tokens, kConfig.tokens, kSlices);
      for (int i = 0; i < kSlices; i += at_once) {
        sm90::load_box(args_.product.a, shared_.tokens(stage) + i * Layout::kSliceBytes, shared_.full(stage), 0,
                       place.row, k * kSlices + i, place.batch);
      }
    } else {
      sm90::copy_bytes(shared_.tokens(stage), tokens_.step(s.entry, k), Layout::kTokenBytes, shared_.full(stage));
    }
  }

  const GemmSm90DequantArgs& args_;
  const Layout& shared_;
  const GemmSm90DequantTokens<kConfig> tokens_;
  const Scales scales_;
  const unsigned long long policy_;
  sm90::Ring<kDequantScaleSlots> slot_;
};

// All entries of a batch, which have M rows each.
template <GemmSm90DequantConfig kConfig>
class DequantBatch {
 public:
  using Work = SkinnyWork<kConfig.splits, gemm_sm90_dequant_parts_meet(kConfig)>;

  __device__ __forceinline__ explicit DequantBatch(const GemmSm90DequantArgs& args) : args_(args.product) {}

  __device__ __forceinline__ void find(int) const {}
  __device__ __forceinline__ int entries() const { return args_.batch_a ? static_cast<int>(args_.gemm.batch) : 1; }
  __device__ __forceinline__ DequantRows rows(int entry) const {
    return {static_cast<const unsigned short*>(args_.gemm.a) + entry * args_.gemm.stride_a_batch,
            static_cast<int>(args_.gemm.m)};
  }
  __device__ __forceinline__ static DequantPlace place(const SkinnySegment& s) { return {0, s.entry}; }
  __device__ __forceinline__ Work work(unsigned chunks) const { return Work(args_, kConfig.rows, chunks); }
  // The product as a tile sees it, and what its rows' factors are of.
  __device__ __forceinline__ const GemmSm90SkinnyArgs& product(const SkinnySegment&) const { return args_; }
  __device__ __forceinline__ static int turn(const SkinnySegment& s) { return s.batch; }

 private:
  const GemmSm90SkinnyArgs& args_;
};

// `Entries`: what rows of A there are, and who has which tile; DequantBatch, or the groups of grouped_sm90_dequant.
template <GemmSm90DequantConfig kConfig, class Entries>
__device__ __forceinline__ void gemm_sm90_dequant_block(const GemmSm90DequantArgs& all,
                                                        const GemmSm90DequantLayout<kConfig>& shared,
                                                        const Entries& entries) {
  using Layout = GemmSm90DequantLayout<kConfig>;
  constexpr GemmSm90SkinnyConfig kSums = gemm_sm90_dequant_sums(kConfig);
  using Output = GemmSm90SkinnyOutput<kSums>;
  using Meeting = GemmSm90SkinnyMeeting<kSums>;
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const auto chunks = static_cast<unsigned>((all.product.gemm.k + Layout::kTileK - 1) / Layout::kTileK);
  constexpr int kConsumers = kConfig.warpgroups * 4;  // warps; those behind them bring what they want
  constexpr int kScaleWarps = gemm_sm90_dequant_scale_warps(kConfig);
  constexpr bool kLends = gemm_sm90_dequant_lends(kConfig);
  constexpr int kMeeting = 7, kFactors = 8;  // named barriers
  const auto meet = [] {
    sm90::named_barrier(kMeeting, gemm_sm90_dequant_threads(kConfig));
    if constexpr (Layout::kMeet) sm90::arrive_cluster();
    allow_next_kernel();
  };
  entries.find(warp);
  typename Entries::Work work = entries.work(chunks);

  // All meet behind the release of this block's share of A: it waits for copies that are under way. A that comes as it lies waits for
  // the kernels in front, nobody for A.
  if constexpr (kLends) {
    if (warp >= kConsumers) sm90::release_registers<kDequantLentRegisters.producer>();
  }
  if (warp == kConsumers) {
    if (sm90::elect_one()) {
      sm90::prefetch_map(all.product.b);
      if constexpr (Layout::kInOrder) sm90::prefetch_map(all.product.a);
      for (int stage = 0; stage < kConfig.stages; ++stage) {
        sm90::init(shared.full(stage), 1 + 32 * kScaleWarps);
        sm90::init(shared.empty(stage), kConsumers);
      }
      for (int slot = 0; slot < kDequantScaleSlots; ++slot) sm90::init(shared.scales_read(slot), kConsumers);
      if constexpr (Layout::kMeet) {
        Meeting(all.product, shared.met_sums(), shared.met()).expect(static_cast<int>(sm90::block_in_cluster()));
      }
      sm90::fence_barrier_init();
    }
    __syncwarp();
    meet();
    if (sm90::elect_one()) GemmSm90DequantBring<kConfig>(all, shared).run(entries, work);
    __syncwarp();
    if constexpr (Layout::kMeet) sm90::wait_cluster();
  } else if (warp > kConsumers) {
    if constexpr (!Layout::kInOrder) wait_for_previous_kernel();
    meet();
    if constexpr (Layout::kInOrder) wait_for_previous_kernel();
    if constexpr (kScaleWarps != 0) {
      if (!kLends || warp <= kConsumers + kScaleWarps) GemmSm90DequantScales<kConfig>(all, shared).bring(work);
    }
    if constexpr (Layout::kMeet) sm90::wait_cluster();
  } else {
    if constexpr (!Layout::kInOrder) {
      wait_for_previous_kernel();
      GemmSm90DequantTokens<kConfig>(all).rearrange(entries.entries(), [&](int entry) { return entries.rows(entry); });
    }
    meet();
    if constexpr (kLends) sm90::take_registers<kDequantLentRegisters.consumer>();
    if constexpr (Layout::kInOrder) wait_for_previous_kernel();
    GemmSm90DequantMultiply<kConfig> multiply(all, shared);
    SkinnySegment s;
    int turn = -1;
    while (work.take(s)) {
      // What varies by token and, where registers allow, by column is asked for before the products.
      constexpr bool kLate = gemm_sm90_dequant_late_columns(kConfig);
      float factor = 1.0f;
      const bool turns = kConfig.epilogue == EpilogueKind::kLinear && entries.turn(s) != turn;
      const int d0 = s.tile * gemm_sm90_skinny_d_columns(kSums);
      typename Output::PartColumns columns[Layout::kParts];
      const auto ask_columns = [&](const GemmSm90SkinnyArgs& args) {
        const Output output(args, shared.box(warp), shared.factors(), 0);
#pragma unroll
        for (int p = 0; p < Layout::kParts; ++p) columns[p] = output.columns(p, s.batch, d0);
      };
      {
        const auto& args = entries.product(s);
        if (turns && threadIdx.x < kConfig.tokens) {
          factor = GemmEpilogue<gemm_sm90_skinny_epilogue(kSums)>(args.gemm.epilogue, args.gemm.m, args.gemm.n, s.batch)
                       .row(threadIdx.x)
                       .factor;
        }
        if constexpr (!kLate) ask_columns(args);
      }

      float sum[Layout::kParts][kConfig.tokens / 2] = {};
      multiply.run(s, sum);
      if (turns) {
        sm90::named_barrier(kFactors, Layout::kThreads);
        if (threadIdx.x < kConfig.tokens) shared.factors()[threadIdx.x] = factor;
        sm90::named_barrier(kFactors, Layout::kThreads);
        turn = entries.turn(s);
      }
      // Anew: beside the products there are no registers for it.
      const auto& args = entries.product(s);
      if constexpr (kLate) ask_columns(args);
      Output output(args, shared.box(warp), shared.factors(), 0);
      if constexpr (Layout::kMeet) {
        sm90::wait_cluster();  // the other blocks have their barriers; a block has one segment
        output.write_met(sum, columns, Meeting(args, shared.met_sums(), shared.met()), work.share(s), s.batch, d0);
      } else {
        output.write(sum, columns, work.share(s), s.batch, d0);
      }
    }
  }
}

template <GemmSm90DequantConfig kConfig>
__device__ __forceinline__ void gemm_sm90_dequant(const GemmSm90DequantArgs& args) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  const GemmSm90DequantLayout<kConfig> shared(dynamic_shared);
  gemm_sm90_dequant_block<kConfig>(args, shared, DequantBatch<kConfig>(args));
}

}  // namespace tilewright
