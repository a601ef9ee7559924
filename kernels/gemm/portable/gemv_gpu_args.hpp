// SPDX-License-Identifier: MIT
// What host and gemv_gpu share: its config and how it cuts its work. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

struct GemvGpuConfig {
  static constexpr const char* kTypeName = "GemvGpuConfig";
  DType dtype;  // of A and B
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  int rows;    // of the weights (columns of B) a block: 16 or 32
  int warps;   // that share K
  int depth;   // lines of 64 bytes of every row that a warp has in flight, twice
  int blocks;  // on a multiprocessor at a time, at least

  bool operator==(const GemvGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("rows", self.rows);
    visit("warps", self.warps);
    visit("depth", self.depth);
    visit("blocks", self.blocks);
  }
};

constexpr GemmEpilogueConfig gemv_gpu_epilogue(const GemvGpuConfig& c) {
  return {c.epilogue, c.activation, c.gate, c.d_dtype};
}
// Rows of A that a block takes: the columns of the instruction.
inline constexpr int kGemvTokens = 8;
// What a warp brings of a row at a time.
inline constexpr int kGemvLineBytes = 64;

constexpr int gemv_gpu_threads(const GemvGpuConfig& c) { return 32 * c.warps; }
// Blocks along `n`, the columns of B. Half a block of either half of a separated gate is as much.
constexpr int64 gemv_gpu_blocks(const GemvGpuConfig& c, int64 n) { return (n + c.rows - 1) / c.rows; }
// Sums of every warp, [kGemvTokens][rows + 1].
constexpr int gemv_gpu_shared_bytes(const GemvGpuConfig& c) { return c.warps * kGemvTokens * (c.rows + 1) * 4; }

// Null, or why there is no kernel of this config; what a target allows besides is the host's to ask.
constexpr const char* gemv_gpu_refusal(const GemvGpuConfig& c) {
  if (dtype_bits(c.dtype) != 16 && dtype_bits(c.dtype) != 8) return "dtype is none of bf16, f16, i8, e4m3, e5m2";
  if (c.rows != 16 && c.rows != 32) return "rows are none of 16, 32";
  if (c.warps < 1 || c.warps > 16) return "warps outside [1, 16]";
  if (c.depth < 1 || c.depth > 8) return "depth outside [1, 8]";
  if (c.blocks < 1 || c.blocks * c.warps > 64) return "more than 64 warps on a multiprocessor";
  return nullptr;
}

}  // namespace tilewright
