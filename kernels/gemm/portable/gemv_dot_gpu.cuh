// SPDX-License-Identifier: MIT
// gemv_dot_gpu: one or two rows of A against weights that are read once, B with K contiguous. A warp takes a row of the
// weights and reads 512 consecutive bytes of it at a time; its lanes multiply and add in f32 (i32 for i8). Nothing is
// shared between warps but the epilogue.
#pragma once

#include "gemm/gpu/gemv_output_gpu.cuh"
#include "gemm/portable/gemv_dot_gpu_args.hpp"
#include "tile/portable/async_copy.cuh"
#include "tile/portable/dot_product.cuh"
#include "tile/portable/kernel_edges.cuh"
#include "tile/portable/stream_load.cuh"

namespace tilewright {

template <GemvDotGpuConfig kConfig>
struct GemvDotGpu {
  using Product = DotProduct<kConfig.dtype>;
  using Sum = typename Product::Sum;
  static constexpr int kDepth = kConfig.depth, kTokens = kConfig.tokens;
  static constexpr int kSize = dtype_bits(kConfig.dtype) / 8;
  static constexpr int kStepBytes = kDepth * kGemvDotPieceBytes;

  struct Pieces {
    uint4 piece[kDepth];
  };

  const GemmArgs& args;
  const int lane, warp, k_bytes, block, batch;  // block: along the rows of the weights
  int first;                                    // byte of the row where this lane's next 16 stand
  const char* row;                              // at `first`
  const char* tokens;

  __device__ __forceinline__ GemvDotGpu(const GemmArgs& a, int block, int batch)
      : args(a),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        k_bytes(static_cast<int>(a.k) * kSize),
        block(block),
        batch(batch),
        first(lane * 16) {
    // A row that is not there: the last one instead, its sums are dropped.
    const int64 wanted = gemv_row_of(kConfig.gate, kConfig.warps, a.n, block, warp),
                n = wanted < a.n ? wanted : a.n - 1;
    row = static_cast<const char*>(a.b) + (batch * a.stride_b_batch + n * a.stride_b_n) * kSize + first;
    tokens = static_cast<const char*>(a.a) + batch * a.stride_a_batch * kSize + first;
  }

  // kWhole: all of the step is inside K.
  template <bool kWhole>
  __device__ __forceinline__ void load(Pieces& w) const {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      w.piece[i] =
          load_stream<kWhole>(row + i * kGemvDotPieceBytes, kWhole || first + i * kGemvDotPieceBytes < k_bytes);
    }
  }
  __device__ __forceinline__ void advance() {
    first += kStepBytes;
    row += kStepBytes;
    tokens += kStepBytes;
  }
  // A comes from the first level of cache: the warps of an SM read the same.
  __device__ __forceinline__ void multiply(Sum (&sum)[kTokens], const Pieces& w, int back) const {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int offset = i * kGemvDotPieceBytes - back;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const bool there = first + offset < k_bytes && t < args.m;
        sum[t] = Product::add(sum[t], w.piece[i], load_cached(tokens + t * args.stride_a_m * kSize + offset, there));
      }
    }
  }

  __device__ __forceinline__ void run(Sum* shared) {
    // Two steps in flight: the next one is asked for before the products of this one. Weights before the kernel in front is
    // waited for, A after.
    const int steps = (k_bytes + kStepBytes - 1) / kStepBytes, whole = k_bytes / kStepBytes;
    Sum sum[kTokens] = {};
    Pieces w;
    if (whole > 0) {
      load<true>(w);
    } else {
      load<false>(w);
    }
    take_over_from_previous_kernel();
#pragma unroll 2
    for (int step = 1; step < steps; ++step) {
      Pieces next;
      advance();
      if (step < whole) {
        load<true>(next);
      } else {
        load<false>(next);
      }
      multiply(sum, w, kStepBytes);
      w = next;
    }
    multiply(sum, w, 0);

    // The warps' sums meet for the epilogue, which works on pairs of columns.
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const Sum total = warp_sum(sum[t]);
      if (lane == 0) shared[t * kConfig.warps + warp] = total;
    }
    __syncthreads();
    write_gemv<gemv_dot_gpu_epilogue(kConfig), kConfig.warps, 32 * kConfig.warps>(
        args, block, batch, [&](int token, int i) { return shared[token * kConfig.warps + i]; });
  }
};

// Grid: blocks of rows of the weights, for one entry of the batch after another.
template <GemvDotGpuConfig kConfig>
__device__ __forceinline__ void gemv_dot_gpu(const GemmArgs& args) {
  const int blocks = static_cast<int>(gemv_dot_gpu_blocks(kConfig, args.n));
  int block = static_cast<int>(blockIdx.x), batch = 0;
  if (args.batch > 1) {
    batch = block / blocks;
    block -= batch * blocks;
  }
  using Kernel = GemvDotGpu<kConfig>;
  Kernel(args, block, batch).run(reinterpret_cast<typename Kernel::Sum*>(dynamic_shared()));
}

}  // namespace tilewright
