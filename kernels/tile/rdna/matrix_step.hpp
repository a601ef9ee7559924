// SPDX-License-Identifier: MIT
// WMMA of RDNA3 (gfx1100) and RDNA4 (gfx1201), wave32. Sources: the instruction-set references, "Wave Matrix Multiply
// Accumulate"; lane layouts as ROCm's matrix instruction calculator prints them (tile/emu/matrix/layout.hpp). On RDNA3 both
// halves of a wave hold the same rows of A and B.
#pragma once

#include "tile/amd/fragment.hpp"

namespace tilewright {

template <DType kType, int kTile>
struct MatrixStep {
  static_assert(kTile == 16);
  using Element = typename SumOf<kType>::Type;
  static constexpr int kRows = 16, kWave = 32, kSums = 8;
  static constexpr bool kIsF8 = is_ocp_f8(kType);
#if defined(__gfx1100__)
  static constexpr int kGroups = 1, kRun = 1;
  static constexpr int kChunks = kType == DType::kI8 ? 1 : 2;
#else
  static constexpr int kGroups = 2, kRun = 8;
  static constexpr int kChunks = 1;
#endif
  static constexpr int kDepth = kGroups * kChunks * 128 / dtype_bits(kType);  // of K
  using Sums = VectorOf<Element, kSums>;

  __device__ __forceinline__ static int row(int lane, int i) {
#if defined(__gfx1100__)
    return 2 * i + lane / 16;
#else
    return lane / 16 * 8 + i;
#endif
  }

#if defined(__gfx1100__)
  __device__ __forceinline__ static void multiply(Sums& sums, const Words4 (&x)[kChunks], const Words4 (&y)[kChunks]) {
    if constexpr (kType == DType::kBf16) {
      Short16 p, q;
      __builtin_memcpy(&p, x, 32);
      __builtin_memcpy(&q, y, 32);
      sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(p, q, sums);
    } else if constexpr (kType == DType::kF16) {
      Half16 p, q;
      __builtin_memcpy(&p, x, 32);
      __builtin_memcpy(&q, y, 32);
      sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(p, q, sums);
    } else {
      static_assert(kType == DType::kI8);
      const auto p = piece_of<Int4>(x[0], 0), q = piece_of<Int4>(y[0], 0);
      sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, p, true, q, sums, false);
    }
  }
#else
  __device__ __forceinline__ static void multiply(Sums& sums, const Words4 (&x)[1], const Words4 (&y)[1]) {
    if constexpr (kType == DType::kBf16) {
      sums =
          __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(piece_of<Brain8>(x[0], 0), piece_of<Brain8>(y[0], 0), sums);
    } else if constexpr (kType == DType::kF16) {
      sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(piece_of<Half8>(x[0], 0), piece_of<Half8>(y[0], 0), sums);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto p = piece_of<VectorOf<int, 2>>(x[0], i), q = piece_of<VectorOf<int, 2>>(y[0], i);
        if constexpr (kType == DType::kI8) {
          sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, p, true, q, sums, false);
        } else if constexpr (kType == DType::kF8E4M3) {
          sums = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(p, q, sums);
        } else {
          static_assert(kType == DType::kF8E5M2);
          sums = __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(p, q, sums);
        }
      }
    }
  }
#endif
};

}  // namespace tilewright
