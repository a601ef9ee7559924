// SPDX-License-Identifier: MIT
// The block-scaled matrix instructions of CDNA4 (gfx950), V_MFMA_SCALE_F32_{32X32X64,16X16X128}_F8F6F4: operands of e4m3, e5m2
// or e2m1, each of its own format, and an e8m0 scale for each 32 of K of a row of either.
//
// Where a step's k lie (tile/emu/matrix/layout.hpp cites the sources): a lane's chunk of e2m1 is the 32 of K of its group; of
// 8-bit formats its first chunk lies in the first half of K, its second one in the other, 16 of K after those of the group
// before. The scale of the 32 of K number g comes from group g of lanes, whoever holds them.
#pragma once

#include "tile/amd/fragment.hpp"

namespace tilewright {

template <DType kX, DType kY, int kTile>
struct ScaledStep {
  static_assert(kTile == 32 || kTile == 16);
  using Element = float;
  static constexpr int kRows = kTile, kWave = 64, kGroups = 64 / kTile;
  static constexpr int kSums = kTile * kTile / 64, kRun = 4;  // as MatrixStep's
  static constexpr int kDepth = 32 * kGroups;                 // of K
  using Sums = VectorOf<float, kSums>;

  __device__ __forceinline__ static int row(int lane, int i) { return i / 4 * kGroups * 4 + lane / kTile * 4 + i % 4; }

  // `byte` of each lane's scales: 0 or 2, known when the loops around are unrolled.
  template <int kXChunks, int kYChunks>
  __device__ __forceinline__ static void multiply(Sums& sums, const Words4 (&x)[kXChunks], const Words4 (&y)[kYChunks],
                                                  unsigned scale_x, unsigned scale_y, int byte) {
    static_assert(kXChunks == chunks(kX) && kYChunks == chunks(kY));
    // Of e2m1 the first half counts, and the compiler passes no more.
    Int8 p{}, q{};
    __builtin_memcpy(&p, x, 16 * kXChunks);
    __builtin_memcpy(&q, y, 16 * kYChunks);
    if (byte == 0) {
      multiply_byte<0>(sums, p, q, static_cast<int>(scale_x), static_cast<int>(scale_y));
    } else {
      multiply_byte<2>(sums, p, q, static_cast<int>(scale_x), static_cast<int>(scale_y));
    }
  }

 private:
  static constexpr int chunks(DType dtype) { return dtype == DType::kF4E2M1 ? 1 : 2; }
  static constexpr int format(DType dtype) { return dtype == DType::kF8E4M3 ? 0 : dtype == DType::kF8E5M2 ? 1 : 4; }

  template <int kByte>
  __device__ __forceinline__ static void multiply_byte(Sums& sums, Int8 p, Int8 q, int scale_p, int scale_q) {
    constexpr int kP = format(kX), kQ = format(kY);
    if constexpr (kTile == 32) {
      sums = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(p, q, sums, kP, kQ, kByte, scale_p, kByte, scale_q);
    } else {
      sums = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(p, q, sums, kP, kQ, kByte, scale_p, kByte, scale_q);
    }
  }
};

}  // namespace tilewright
