// SPDX-License-Identifier: MIT
// What host and gemv_dot_gpu share: its config and how it cuts its work. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

struct GemvDotGpuConfig {
  static constexpr const char* kTypeName = "GemvDotGpuConfig";
  DType dtype;  // of A and B
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  int tokens;  // rows of A: 1 or 2
  int warps;   // of a block, a row of the weights each; a multiple of 4
  int depth;   // pieces of 512 bytes of its row that a warp has in flight, twice
  int blocks;  // on a multiprocessor at a time, at least

  bool operator==(const GemvDotGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("tokens", self.tokens);
    visit("warps", self.warps);
    visit("depth", self.depth);
    visit("blocks", self.blocks);
  }
};

constexpr GemmEpilogueConfig gemv_dot_gpu_epilogue(const GemvDotGpuConfig& c) {
  return {c.epilogue, c.activation, c.gate, c.d_dtype};
}
inline constexpr int kGemvDotTokens = 2;
// Of a row that a warp reads at once.
inline constexpr int kGemvDotPieceBytes = 512;

constexpr int gemv_dot_gpu_threads(const GemvDotGpuConfig& c) { return 32 * c.warps; }
constexpr int64 gemv_dot_gpu_blocks(const GemvDotGpuConfig& c, int64 n) { return (n + c.warps - 1) / c.warps; }
// Sums, [token][row].
constexpr int gemv_dot_gpu_shared_bytes(const GemvDotGpuConfig& c) { return c.tokens * c.warps * 4; }

// Null, or why there is no kernel of this config.
constexpr const char* gemv_dot_gpu_refusal(const GemvDotGpuConfig& c) {
  if (c.dtype != DType::kF32 && c.dtype != DType::kBf16 && c.dtype != DType::kF16 && c.dtype != DType::kI8) {
    return "dtype is none of f32, bf16, f16, i8";
  }
  if (c.tokens != 1 && c.tokens != 2) return "tokens are none of 1, 2";
  if (c.warps < 4 || c.warps > 16 || c.warps % 4 != 0) return "warps are none of 4, 8, 12, 16";
  if (c.depth < 1 || c.depth > 8) return "depth outside [1, 8]";
  if (c.blocks < 1 || c.blocks * c.warps > 64) return "more than 64 warps on a multiprocessor";
  return nullptr;
}

}  // namespace tilewright
