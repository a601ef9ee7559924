// SPDX-License-Identifier: MIT
// gemv_amd: a few rows of A against weights that are read once. Weights go from memory to registers and from there into
// the matrix instructions, whose first operand they are; the rows of A, padded with zeros to 16 or 32, are the second.
// The waves of a workgroup share K step by step, and where that leaves CUs idle, workgroups share it too.
//
// The waves' sums meet in LDS and are added in a fixed order; partial sums of workgroups go to the workspace, and a
// second launch adds them in the order of K: the result does not depend on timing.
#pragma once

#include "gemm/amd/gemv_amd_load.hpp"
#include "gemm/gpu/gemv_output_gpu.cuh"

namespace tilewright {

template <GemvAmdConfig kConfig>
struct GemvAmd {
  static_assert(gemv_amd_refusal(kConfig) == nullptr);
  static constexpr GemvAmdShape kShape = gemv_amd_shape(kConfig);
  using Step = GemvAmdStep<kConfig>;
  using Matrix = typename Step::Matrix;
  using Sum = typename Matrix::Element;
  using Tokens = GemvAmdTokens<kConfig>;
  using Weights = typename GemvAmdWeightsOf<kConfig, kConfig.weights>::Type;
  static constexpr int kM = Tokens::kM, kN = kConfig.blocks_n, kTileN = kShape.tile_n, kWaves = kConfig.waves;

  struct Stage {
    typename Tokens::Data a;
    typename Weights::Data b;
  };
  struct Sums {
    typename Matrix::Sums block[kM][kN];
  };

  const GemvAmdArgs& args;
  unsigned group, part, batch;  // of columns, of K
  int thread, wave, lane;

  // unit: batch entries one after another, their groups, with phase kWork the parts of K of each.
  __device__ __forceinline__ GemvAmd(const GemvAmdArgs& a, unsigned unit) : args(a) {
    const unsigned parts = a.phase == GemvAmdPhase::kWork ? a.splits : 1, groups = unit / parts;
    part = unit % parts;
    group = groups % a.groups, batch = groups / a.groups;
    thread = static_cast<int>(threadIdx.x);
    wave = __builtin_amdgcn_readfirstlane(thread / kConfig.wave);
    lane = thread % kConfig.wave;
  }

  __device__ __forceinline__ static void multiply(Sums& sums, const Stage& stage) {
#pragma unroll
    for (int i = 0; i < Step::kDepth; ++i) {
      Words4 b[kN][Step::kChunks];
      Weights::chunks(stage.b, i, b);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        Words4 a[Step::kChunks];
        Tokens::chunks(stage.a, i, m, a);
#pragma unroll
        for (int n = 0; n < kN; ++n) Matrix::multiply(sums.block[m][n], b[n], a);
      }
    }
  }

  // The wave's steps of the part: every kWaves-th. Two are in flight; those past the end bring zeros, without a read.
  __device__ __forceinline__ void stream(Sums& sums) const {
    const GemmArgs& g = args.gemm;
    const Tokens tokens(g, batch, lane);
    const Weights weights(g, batch, group, lane);
    const int64 begin = int64{part} * args.split_k * kConfig.tile_k, width = int64{args.split_k} * kConfig.tile_k;
    const int64 end = args.split_k > 0 && begin + width < g.k ? begin + width : g.k;
    constexpr int64 kRound = int64{kWaves} * kConfig.tile_k;
    const auto fetch = [&](Stage& to, int64 k) {
      const int left = end - k >= kConfig.tile_k ? kShape.row_bytes
                       : end > k                 ? static_cast<int>(end - k) * kShape.size
                                                 : 0;
      weights.fetch(to.b, k, left);
      tokens.fetch(to.a, k, left);
    };
    int64 k = begin + int64{wave} * kConfig.tile_k;
    Stage first, second;
    fetch(first, k);
    keep_order();
    fetch(second, k + kRound);
    keep_order();
#pragma unroll 1
    for (; k < end; k += 2 * kRound) {
      multiply(sums, first);
      fetch(first, k + 2 * kRound);
      keep_order();
      multiply(sums, second);
      fetch(second, k + 3 * kRound);
      keep_order();
    }
  }

  static constexpr int kShared = kShape.lds_waves;

  // A lane's sums to LDS, [wave][row of A][column of the group], or what stands there added to them.
  template <bool kAdd>
  __device__ __forceinline__ void exchange(Sums& sums, Sum* shared) const {
    const int own = wave % kShared * kConfig.tile_m;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const int token = m * 16 + lane % 16;
      if (token >= args.gemm.m) continue;
      Sum* const row = shared + (own + token) * kShape.pitch;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < Matrix::kSums; ++i) {
          const int column = Weights::column(n, Matrix::row(lane, i));
          if constexpr (kAdd) {
            sums.block[m][n][i] += row[column];
          } else {
            row[column] = sums.block[m][n][i];
          }
        }
      }
    }
  }
  // The last kShared waves' sums first, which those before them add to their own, until as many waves are left.
  __device__ __forceinline__ void share(Sums& sums, Sum* shared) const {
#pragma unroll 1
    for (int last = kWaves - kShared; last > 0; last -= kShared) {
      if (wave >= last && wave < last + kShared) exchange<false>(sums, shared);
      __syncthreads();
      if (wave >= last - kShared && wave < last) exchange<true>(sums, shared);
      __syncthreads();
    }
    if (wave < kShared) exchange<false>(sums, shared);
    __syncthreads();
  }
  __device__ __forceinline__ static Sum total(const Sum* shared, int token, int column) {
    Sum sum = 0;
#pragma unroll
    for (int w = 0; w < kShared; ++w) sum += shared[(w * kConfig.tile_m + token) * kShape.pitch + column];
    return sum;
  }

  __device__ __forceinline__ Sum* partial(unsigned of) const {
    const int64 slot = (int64{batch} * args.groups + group) * args.splits + of;
    return static_cast<Sum*>(args.gemm.workspace) + slot * kConfig.tile_m * kTileN;
  }

  __device__ __forceinline__ void work() const {
    auto* const shared = reinterpret_cast<Sum*>(dynamic_shared());
    Sums sums{};
    stream(sums);
    share(sums, shared);
    if (args.splits > 1) {
      Sum* const to = partial(part);
#pragma unroll 1
      for (int i = thread; i < static_cast<int>(args.gemm.m) * kTileN; i += kShape.threads) {
        to[i] = total(shared, i / kTileN, i % kTileN);
      }
      return;
    }
    write([&](int token, int column) { return total(shared, token, column); });
  }
  __device__ __forceinline__ void reduce() const {
    write([&](int token, int column) {
      Sum sum = 0;
#pragma unroll 1
      for (unsigned of = 0; of < args.splits; ++of) sum += partial(of)[token * kTileN + column];
      return sum;
    });
  }
  template <class Total>
  __device__ __forceinline__ void write(const Total& of) const {
    write_gemv<kConfig.epilogue_config(), kTileN, kShape.threads>(read_again(args).gemm, static_cast<int>(group),
                                                                  static_cast<int>(batch), of);
  }
};

template <GemvAmdConfig kConfig>
__device__ __forceinline__ void gemv_amd(const GemvAmdArgs& args) {
  const GemvAmd<kConfig> kernel(args, blockIdx.x);
  if (args.phase == GemvAmdPhase::kReduce) return kernel.reduce();
  kernel.work();
}

}  // namespace tilewright
