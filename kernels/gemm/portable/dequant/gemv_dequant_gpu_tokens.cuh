// SPDX-License-Identifier: MIT
// A of a slice of K in shared memory, as gemv_dequant_gpu multiplies it. K is split among the warps, so each warp brings what it
// multiplies, and waits for no other.
#pragma once

#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "tile/portable/stream_load.cuh"

namespace tilewright {

template <GemvDequantGpuConfig kConfig>
class GemvDequantTokens {
 public:
  static constexpr int kPieceK = gemv_dequant_gpu_piece_k(kConfig);
  static constexpr int kChunks = kPieceK / 8;                   // of eight values, of a lane and line
  static constexpr int kOfLine = kChunks * kConfig.tokens * 4;  // pieces of 16 bytes

  // `lines`: of a slice and warp. `pieces`: this warp's, [line][chunk][token][lane of four], eight values each.
  __device__ __forceinline__ GemvDequantTokens(const GemmArgs& args, int lines, uint4* pieces)
      : args_(args), lines_(lines), pieces_(pieces) {}

  // A of this lane for its part of a line: token l / 4 of each eight, chunk after chunk, kConfig.tokens * 4 pieces apart. Lanes
  // beyond the tokens take one of theirs again.
  __device__ __forceinline__ const uint4* of_lane() const {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    return pieces_ + (lane / 4 % kConfig.tokens * 4 + lane % 4);
  }

  // All lanes of a warp, when none reads what was there. Values are paired as weights are.
  __device__ __forceinline__ void bring(int batch, int slice) const {
    const auto lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const char* const a = static_cast<const char*>(args_.a) + batch * args_.stride_a_batch * 2;
    const int k0 = (slice * kConfig.warps + warp) * lines_ * 4 * kPieceK;
    const auto k_end = static_cast<int>(args_.k), m = static_cast<int>(args_.m);
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < lines_ * kOfLine; i += 32) {
      const int token = i / 4 % kConfig.tokens, chunk = i / (4 * kConfig.tokens) % kChunks;
      const int k = k0 + (i / kOfLine * 4 + i % 4) * kPieceK + chunk * 8;
      const int64 at = static_cast<int64>(token) * static_cast<int>(args_.stride_a_m) + k;
      const uint4 from = load_cached(a + at * 2, token < m && k < k_end);
      const unsigned values[4] = {from.x, from.y, from.z, from.w};
      unsigned pairs[4];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const int low = gemv_dequant_gpu_value(kConfig, pair, 0), high = gemv_dequant_gpu_value(kConfig, pair, 1);
        const unsigned select = (low % 2 == 0 ? 0x10u : 0x32u) | (high % 2 == 0 ? 0x5400u : 0x7600u);
        pairs[pair] = __byte_perm(values[low / 2], values[high / 2], select);
      }
      pieces_[i] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    }
    __syncwarp();
  }

 private:
  const GemmArgs& args_;
  const int lines_;
  uint4* const pieces_;
};

}  // namespace tilewright
