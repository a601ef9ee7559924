// SPDX-License-Identifier: MIT
// gemv_gpu: at most eight rows of A against weights that are read once, B with K contiguous. Weights go from memory to
// registers and from there into the tensor cores, whose 16-row side they are; the rows of A are its 8-column side. The
// warps of a block share K; their sums meet in shared memory and are added in a fixed order.
#pragma once

#include "gemm/gpu/gemv_output_gpu.cuh"
#include "gemm/portable/gemv_gpu_args.hpp"
#include "tile/portable/async_copy.cuh"
#include "tile/portable/kernel_edges.cuh"
#include "tile/portable/line_product.cuh"
#include "tile/portable/stream_load.cuh"

namespace tilewright {

template <GemvGpuConfig kConfig>
struct GemvGpu {
  using Sum = typename Mma<kConfig.dtype>::Accumulator;
  static constexpr int kRowTiles = kConfig.rows / 16;
  static constexpr int kStepBytes = kConfig.warps * kConfig.depth * kGemvLineBytes;
  static constexpr int kPitch = kConfig.rows + 1;
  static constexpr int kSize = dtype_bits(kConfig.dtype) / 8;

  struct Weights {
    uint4 line[kConfig.depth][kRowTiles][2];
  };
  struct Tokens {
    uint4 line[kConfig.depth];
  };

  const GemmArgs& args;
  const int lane, warp, k_bytes, block, batch;  // block: along the rows of the weights
  int first;                                    // byte of a row from which this thread's 16 of the next step stand
  const char* rows[kRowTiles][2];               // at `first`
  const char* tokens;

  __device__ __forceinline__ GemvGpu(const GemmArgs& a, int block, int batch)
      : args(a),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        k_bytes(static_cast<int>(a.k) * kSize),
        block(block),
        batch(batch),
        first(warp * kConfig.depth * kGemvLineBytes + lane % 4 * 16) {
    const char* b = static_cast<const char*>(a.b) + batch * a.stride_b_batch * kSize;
    const char* x = static_cast<const char*>(a.a) + batch * a.stride_a_batch * kSize;
#pragma unroll
    for (int i = 0; i < 2 * kRowTiles; ++i) {
      // Rows that are not there: the last one instead, its sums are dropped.
      const int64 wanted = gemv_row_of(kConfig.gate, kConfig.rows, a.n, block, i * 8 + lane / 4);
      const int64 n = wanted < a.n ? wanted : a.n - 1;
      rows[i / 2][i % 2] = b + n * a.stride_b_n * kSize + first;
    }
    tokens = x + lane / 4 * a.stride_a_m * kSize + first;
  }

  // The next step's bytes of weights. kWhole: all of it is inside K.
  template <bool kWhole>
  __device__ __forceinline__ void load(Weights& w) const {
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      const bool there = first + i * kGemvLineBytes < k_bytes;
#pragma unroll
      for (int r = 0; r < 2 * kRowTiles; ++r) {
        w.line[i][r / 2][r % 2] = load_stream<kWhole>(rows[r / 2][r % 2] + i * kGemvLineBytes, there);
      }
    }
  }
  __device__ __forceinline__ void load(Tokens& x) const {
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
      const bool there = first + i * kGemvLineBytes < k_bytes && lane / 4 < args.m;
      x.line[i] = load_cached(tokens + i * kGemvLineBytes, there);
    }
  }
  __device__ __forceinline__ void advance() {
    first += kStepBytes;
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) rows[r / 2][r % 2] += kStepBytes;
    tokens += kStepBytes;
  }

  __device__ __forceinline__ void run(Sum* shared) {
    // Two steps in flight: the next one is asked for before the products of this one.
    const int steps = (k_bytes + kStepBytes - 1) / kStepBytes, whole = k_bytes / kStepBytes;
    Sum sum[kRowTiles][4] = {};
    Weights w;
    Tokens x;
    if (whole > 0) {
      load<true>(w);
    } else {
      load<false>(w);
    }
    take_over_from_previous_kernel();
    load(x);
#pragma unroll 2
    for (int step = 1; step < steps; ++step) {
      Weights next_w;
      Tokens next_x;
      advance();
      if (step < whole) {
        load<true>(next_w);
      } else {
        load<false>(next_w);
      }
      load(next_x);
      multiply(sum, w, x);
      w = next_w;
      x = next_x;
    }
    multiply(sum, w, x);

    // Sums of the warps, [warp][token][row].
    Sum* const own = shared + warp * kGemvTokens * kPitch;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        own[(lane % 4 * 2 + e % 2) * kPitch + r * 16 + lane / 4 + e / 2 * 8] = sum[r][e];
      }
    }
    __syncthreads();
    write_gemv<gemv_gpu_epilogue(kConfig), kConfig.rows, 32 * kConfig.warps>(
        args, block, batch, [&](int token, int row) { return total(shared, token, row); });
  }

  __device__ __forceinline__ static void multiply(Sum (&sum)[kRowTiles][4], const Weights& w, const Tokens& x) {
#pragma unroll
    for (int i = 0; i < kConfig.depth; ++i) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        multiply_line<kConfig.dtype>(sum[r], w.line[i][r][0], w.line[i][r][1], x.line[i]);
      }
    }
  }

  __device__ __forceinline__ Sum total(const Sum* shared, int token, int row) const {
    Sum sum = 0;
#pragma unroll
    for (int w = 0; w < kConfig.warps; ++w) sum += shared[(w * kGemvTokens + token) * kPitch + row];
    return sum;
  }
};

// Grid: blocks of rows of the weights, for one entry of the batch after another.
template <GemvGpuConfig kConfig>
__device__ __forceinline__ void gemv_gpu(const GemmArgs& args) {
  const int blocks = static_cast<int>(gemv_gpu_blocks(kConfig, args.n));
  int block = static_cast<int>(blockIdx.x), batch = 0;
  if (args.batch > 1) {
    batch = block / blocks;
    block -= batch * blocks;
  }
  using Kernel = GemvGpu<kConfig>;
  Kernel(args, block, batch).run(reinterpret_cast<typename Kernel::Sum*>(dynamic_shared()));
}

}  // namespace tilewright
