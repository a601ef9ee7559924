// SPDX-License-Identifier: MIT
// MFMA of CDNA2 (gfx90a), CDNA3 (gfx942) and CDNA4 (gfx950; block scales and the full rate of 8-bit floats:
// scaled_step.hpp), wave64. Sources: the instruction-set references, "Matrix
// Arithmetic Instructions"; lane layouts as ROCm's matrix instruction calculator prints them (tile/emu/matrix/layout.hpp).
#pragma once

#include "tile/amd/fragment.hpp"

namespace tilewright {

template <DType kType, int kTile>
struct MatrixStep {
  static_assert(kTile == 32 || kTile == 16);
  using Element = typename SumOf<kType>::Type;
  static constexpr int kRows = kTile, kWave = 64, kGroups = 64 / kTile;
  static constexpr int kSums = kTile * kTile / 64, kRun = 4;  // kRun: of a lane's sums, neighbours along x
  static constexpr int kChunks = 1;
  static constexpr bool kIsE4m3 = kType == DType::kF8E4M3Fnuz || kType == DType::kF8E4M3;
  static constexpr int kDepth = kGroups * 128 / dtype_bits(kType);  // of K
  using Sums = VectorOf<Element, kSums>;

  __device__ __forceinline__ static int row(int lane, int i) { return i / 4 * kGroups * 4 + lane / kTile * 4 + i % 4; }

  __device__ __forceinline__ static void multiply(Sums& sums, const Words4 (&x)[kChunks], const Words4 (&y)[kChunks]) {
    if constexpr (kType == DType::kF32) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = piece_of<float>(x[0], i), q = piece_of<float>(y[0], i);
        if constexpr (kTile == 32) {
          sums = __builtin_amdgcn_mfma_f32_32x32x2f32(p, q, sums, 0, 0, 0);
        } else {
          sums = __builtin_amdgcn_mfma_f32_16x16x4f32(p, q, sums, 0, 0, 0);
        }
      }
#if defined(__gfx942__) || defined(__gfx950__)
    } else if constexpr (is_f8(kType)) {
      multiply_f8(sums, x[0], y[0]);
#endif
    } else {
#if defined(__gfx950__)
      multiply_wide(sums, x[0], y[0]);
#else
#pragma unroll
      for (int i = 0; i < kPieces; ++i) multiply_piece(sums, x[0], y[0], i);
#endif
    }
  }

 private:
#if defined(__gfx950__)
  // A chunk is an operand.
  __device__ __forceinline__ static void multiply_wide(Sums& sums, const Words4& x, const Words4& y) {
    if constexpr (kType == DType::kBf16) {
      const auto p = piece_of<Brain8>(x, 0), q = piece_of<Brain8>(y, 0);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_f32_32x32x16_bf16(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_f32_16x16x32_bf16(p, q, sums, 0, 0, 0);
      }
    } else if constexpr (kType == DType::kF16) {
      const auto p = piece_of<Half8>(x, 0), q = piece_of<Half8>(y, 0);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_f32_32x32x16_f16(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_f32_16x16x32_f16(p, q, sums, 0, 0, 0);
      }
    } else {
      static_assert(kType == DType::kI8);
      const auto p = piece_of<Int4>(x, 0), q = piece_of<Int4>(y, 0);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_i32_32x32x32_i8(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_i32_16x16x64_i8(p, q, sums, 0, 0, 0);
      }
    }
  }
#else
#if defined(__gfx942__)
  static constexpr int kPieces = 2;
#else
  static constexpr int kPieces = kType == DType::kI8 ? 4 : 2;
#endif

  __device__ __forceinline__ static void multiply_piece(Sums& sums, const Words4& x, const Words4& y, int i) {
    if constexpr (kType == DType::kBf16) {
      const auto p = piece_of<Short4>(x, i), q = piece_of<Short4>(y, i);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(p, q, sums, 0, 0, 0);
      }
    } else if constexpr (kType == DType::kF16) {
      const auto p = piece_of<Half4>(x, i), q = piece_of<Half4>(y, i);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_f32_32x32x8f16(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_f32_16x16x16f16(p, q, sums, 0, 0, 0);
      }
    } else {
      static_assert(kType == DType::kI8);
#if defined(__gfx942__)
      const auto p = piece_of<long>(x, i), q = piece_of<long>(y, i);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_i32_32x32x16_i8(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_i32_16x16x32_i8(p, q, sums, 0, 0, 0);
      }
#else
      const auto p = piece_of<int>(x, i), q = piece_of<int>(y, i);
      if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_i32_32x32x8i8(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_i32_16x16x16i8(p, q, sums, 0, 0, 0);
      }
#endif
    }
  }

#endif

#if defined(__gfx942__) || defined(__gfx950__)
  // Half a chunk is an operand.
  __device__ __forceinline__ static void multiply_f8(Sums& sums, const Words4& x, const Words4& y) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto p = piece_of<long>(x, i), q = piece_of<long>(y, i);
      if constexpr (kIsE4m3 && kTile == 32) {
        sums = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(p, q, sums, 0, 0, 0);
      } else if constexpr (kIsE4m3) {
        sums = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(p, q, sums, 0, 0, 0);
      } else if constexpr (kTile == 32) {
        sums = __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8(p, q, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(p, q, sums, 0, 0, 0);
      }
    }
  }
#endif
};

}  // namespace tilewright
