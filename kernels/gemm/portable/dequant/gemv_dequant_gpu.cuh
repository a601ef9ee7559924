// SPDX-License-Identifier: MIT
// gemv_dequant_gpu: at most 16 rows of A in 16 bits against narrow weights, which are read once, as [N, K]. Weights go from
// memory to registers, are widened there and go into the tensor cores, whose 16-row side they are; the rows of A (tokens) are
// the 8-column side and lie in shared memory, in the order in which weights are widened. A block has tiles of rows one after
// another; its warps share K, and what they bring next is on its way while they multiply, from one tile to the next. No warp
// waits for another.
#pragma once

#include "gemm/portable/dequant/gemv_dequant_gpu_multiply.cuh"
#include "tile/portable/async_copy.cuh"
#include "tile/portable/kernel_edges.cuh"
#include "tile/portable/warp_count.cuh"

namespace tilewright {

template <GemvDequantGpuConfig kConfig>
class GemvDequantGpu {
 public:
  __device__ __forceinline__ GemvDequantGpu(const GemvDequantGpuArgs& args, unsigned char* shared)
      : args_(args),
        cut_(args.cut),
        lane_(static_cast<int>(threadIdx.x % 32)),
        warp_(static_cast<int>(threadIdx.x / 32)),
        shared_(shared) {}

  __device__ __forceinline__ void run() {
    const GemvDequantWork work(cut_);
    GemvDequantUnit now = work.first();
    GemvDequantLoad<kConfig> load(args_);
    GemvDequantLine<kConfig> lines[kConfig.depth];
    const Tokens tokens(args_.product.gemm, cut_.steps * kConfig.depth, pieces());

    load.begin(now);
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) load.load(lines[i], i);
    take_over_from_previous_kernel();
    if (threadIdx.x < kTurns) counts()[threadIdx.x] = 0;
    __syncthreads();

    bool is_there = false;
#pragma unroll 1
    for (int unit = 0; now.tile < now.end; ++unit) {
      // A of this slice of K and entry of the batch.
      if (!is_there) tokens.bring(now.batch, now.slice);

      typename Multiply::Sum sum = {};
      GemvDequantUnit next = now;
#pragma unroll 1
      for (int step = 0; step < cut_.steps; ++step) {
        // Each line's registers take the one a step later as soon as it is multiplied; after the last step the next unit's.
        if (step + 1 < cut_.steps) {
          load.advance();
        } else {
          next = work.after(now);
          load.begin(next);
        }
#pragma unroll
        for (int i = 0; i < kConfig.depth; ++i) {
          const int at = step * kConfig.depth + i;
          Multiply::run(sum, lines[i], tokens.of_lane() + at * Tokens::kOfLine);
          load.load(lines[i], i);
        }
      }
      finish(now, unit, sum);

      is_there = next.batch == now.batch && next.slice == now.slice;
      now = next;
    }
  }

 private:
  using Multiply = GemvDequantMultiply<kConfig>;
  using Tokens = GemvDequantTokens<kConfig>;
  static constexpr int kTurns = gemv_dequant_gpu_turns(kConfig);
  static constexpr int kPitch = gemv_dequant_gpu_pitch(kConfig), kOfTile = gemv_dequant_gpu_sums(kConfig);

  // Shared memory: A, [warps][steps][depth] lines; a count a turn; sums, [turns][warps][tokens][pitch]; sums that wait,
  // [tiles][tokens][pitch].
  __device__ __forceinline__ uint4* pieces() const {
    return reinterpret_cast<uint4*>(shared_) + warp_ * cut_.steps * kConfig.depth * Tokens::kOfLine;
  }
  __device__ __forceinline__ unsigned* counts() const {
    return reinterpret_cast<unsigned*>(shared_ + gemv_dequant_gpu_token_bytes(kConfig, cut_.steps));
  }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(counts() + kTurns); }
  __device__ __forceinline__ float* held() const { return sums() + kTurns * kConfig.warps * kOfTile; }

  // The warps' sums of a unit meet: the warp that comes last adds them, to wait for the next slice or to become D. It counts
  // itself once more when it has read them: then their place is free.
  __device__ __forceinline__ void finish(const GemvDequantUnit& u, int unit, const typename Multiply::Sum& sum) const {
    const int turn = unit % kTurns;
    const unsigned before = static_cast<unsigned>(unit / kTurns) * (kConfig.warps + 1);
    float* const all = sums() + turn * kConfig.warps * kOfTile;
    float* const own = all + warp_ * kOfTile;
    if (unit >= kTurns) wait_count(counts() + turn, before);
#pragma unroll
    for (int t = 0; t < Multiply::kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < Multiply::kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int token = j * 8 + lane_ % 4 * 2 + e % 2, row = t * 16 + lane_ / 4 + e / 2 * 8;
          if (token < kConfig.tokens) own[token * kPitch + row] = sum[t][j][e];
        }
      }
    }
    if (count_warp(counts() + turn) != before + kConfig.warps - 1) return;

    float* const waiting = held() + (u.tile - u.begin) * kOfTile;
    const auto total = [&](int token, int row) {
      const int at = token * kPitch + row;
      float x = u.slice > 0 ? waiting[at] : 0;
#pragma unroll
      for (int w = 0; w < kConfig.warps; ++w) x += all[w * kOfTile + at];
      return x;
    };
    if (u.slice + 1 < cut_.slices) {
#pragma unroll 1
      for (int i = lane_; i < kConfig.tokens * kConfig.rows; i += 32) {
        waiting[i / kConfig.rows * kPitch + i % kConfig.rows] = total(i / kConfig.rows, i % kConfig.rows);
      }
    } else {
      constexpr float kFactor = static_cast<float>(1 << Multiply::kShift);
      write_gemv<gemv_dequant_gpu_epilogue(kConfig), kConfig.rows, 32>(
          args_.product.gemm, u.tile - u.batch * cut_.of_batch, u.batch,
          [&](int token, int row) { return total(token, row) * kFactor; }, lane_);
    }
    count_warp(counts() + turn);
  }

  const GemvDequantGpuArgs& args_;
  const GemvDequantGpuCut& cut_;
  const int lane_, warp_;
  unsigned char* const shared_;
};

// Grid: at most as many blocks as there are tiles.
template <GemvDequantGpuConfig kConfig>
__device__ __forceinline__ void gemv_dequant_gpu(const GemvDequantGpuArgs& args) {
  static_assert(gemv_dequant_gpu_refusal(kConfig) == nullptr);
  GemvDequantGpu<kConfig>(args, dynamic_shared()).run();
}

}  // namespace tilewright
