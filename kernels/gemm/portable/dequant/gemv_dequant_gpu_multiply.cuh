// SPDX-License-Identifier: MIT
// A line of weights of gemv_dequant_gpu, widened in registers, times A of the same K.
#pragma once

#include "gemm/portable/dequant/gemv_dequant_gpu_load.cuh"
#include "gemm/portable/dequant/gemv_dequant_gpu_tokens.cuh"
#include "tile/portable/mma.cuh"
#include "tile/portable/widen_eight.cuh"

namespace tilewright {

template <GemvDequantGpuConfig kConfig>
struct GemvDequantMultiply {
  using Line = GemvDequantLine<kConfig>;
  static constexpr int kWords = dtype_bits(kConfig.weight) / 4;  // of eight values
  static constexpr int kShift = widened_shift<kConfig.weight, kConfig.dtype>();
  using Tokens = GemvDequantTokens<kConfig>;
  static constexpr int kTiles = Line::kTiles, kRows = Line::kRows, kColumns = kConfig.tokens > 8 ? 2 : 1;
  static constexpr int kChunks = Tokens::kChunks;
  using Sum = float[kTiles][kColumns][4];
  using Operands = WidenOperands[kRows];

  // sum += weights times A. `tokens`: of this lane, the line's first chunk.
  __device__ __forceinline__ static void run(Sum& sum, const Line& line, const uint4* tokens) {
    Operands by;
    if constexpr (narrow_weights_promote(kConfig)) {
      // The sum of a group from zero, then times its scale.
      Sum apart = {};
      plain(line, by);
      products(apart, line, by, tokens);
      float scale[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) scale[r] = widen_scale<kConfig.scale>(line.scale[r]);
      add(sum, apart, scale);
    } else if constexpr (narrow_weights_fold(kConfig)) {
      run_folded(sum, line, by, tokens);
    } else {
      plain(line, by);
      products(sum, line, by, tokens);
    }
  }

 private:
  __device__ __forceinline__ static void plain(const Line& line, Operands& by) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Line::kZeroed) {
        by[r] = zeroed_operands<kConfig.weight, kConfig.dtype>(zero_of(line, r));
      } else {
        by[r] = widen_operands<kConfig.weight, kConfig.dtype>();
      }
    }
  }

  __device__ __forceinline__ static int zero_of(const Line& line, int r) {
    const unsigned bits = line.zero[r] >> line.zero_shift[r];
    if constexpr (kConfig.zero == DType::kI8) return static_cast<signed char>(bits);
    const auto nibble = static_cast<int>(bits & 15);
    return kConfig.zero == DType::kI4 ? (nibble ^ 8) - 8 : nibble;
  }

  __device__ __forceinline__ static void products(Sum& sum, const Line& line, const Operands& by, const uint4* tokens) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      uint4 x[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) x[j] = tokens[(chunk * kConfig.tokens + j * 8) * 4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        unsigned upper[4], lower[4];
        widen_eight<kConfig.weight, kConfig.dtype, Line::kZeroed>(&line.words[2 * t][chunk * kWords], by[2 * t], upper);
        widen_eight<kConfig.weight, kConfig.dtype, Line::kZeroed>(&line.words[2 * t + 1][chunk * kWords], by[2 * t + 1],
                                                                  lower);
        const unsigned first[4] = {upper[0], lower[0], upper[1], lower[1]};
        const unsigned second[4] = {upper[2], lower[2], upper[3], lower[3]};
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          Mma<kConfig.dtype>::run(sum[t][j], first, x[j].x, x[j].y);
          Mma<kConfig.dtype>::run(sum[t][j], second, x[j].z, x[j].w);
        }
      }
    }
  }

  // sum += scale * apart.
  __device__ __forceinline__ static void add(Sum& sum, const Sum& apart, const float (&scale)[kRows]) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[t][j][e] = __fmaf_rn(apart[t][j][e], scale[2 * t + e / 2], sum[t][j][e]);
      }
    }
  }

  // e2m1 as bf16 wants a factor 2^126, and takes its scale along with it. Where that is no bf16, a scale above 2, a row's
  // weights are multiplied less a power of two, which its sums get back.
  __device__ __forceinline__ static void run_folded(Sum& sum, const Line& line, Operands& by, const uint4* tokens) {
    constexpr int kLargest = 128;
    bool is_large = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) is_large |= line.scale[r] > kLargest;
    if (!__any_sync(0xFFFFFFFF, is_large)) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) by[r] = factor(line.scale[r], 0);
      products(sum, line, by, tokens);
      return;
    }
    float back[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto code = static_cast<int>(line.scale[r]);
      int less = code == 255 ? 0 : max(code - kLargest, 0);
      less = max(less, __shfl_xor_sync(0xFFFFFFFF, less, 1));
      less = max(less, __shfl_xor_sync(0xFFFFFFFF, less, 2));
      by[r] = factor(line.scale[r], less);
      back[r] = __uint_as_float(static_cast<unsigned>(less + 127) << 23);
    }
    Sum apart = {};
    products(apart, line, by, tokens);
    add(sum, apart, back);
  }
  // 2^126 times the scale, less 2^less, as a pair of bf16.
  __device__ __forceinline__ static WidenOperands factor(unsigned code, int less) {
    const int exponent = max(static_cast<int>(code) + kE2M1Bf16Shift - less, 0);
    const unsigned pair = code == 255 ? 0x7FFF7FFFu : static_cast<unsigned>(exponent) * 0x00800080u;
    return {pair, pair};
  }
};

}  // namespace tilewright
