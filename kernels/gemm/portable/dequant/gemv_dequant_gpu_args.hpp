// SPDX-License-Identifier: MIT
// What host and gemv_dequant_gpu share: its config, how it cuts its work, and the order in which it takes K. Freestanding.
#pragma once

#include "gemm/gemm_scale_args.hpp"
#include "gemm/narrow_weights_rules.hpp"

namespace tilewright {

struct GemvDequantGpuConfig {
  static constexpr const char* kTypeName = "GemvDequantGpuConfig";
  DType dtype;   // of A: bf16 or f16
  DType weight;  // of B
  DType scale;   // of groups along K of B, kNone = none
  int group;     // values along K that share a scale, 0 = all
  DType zero;    // of the groups' zero points, kNone = none
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  int rows;    // of the weights (columns of B) of a tile: a multiple of 16 up to 96
  int tokens;  // rows of A: 1, 2, 4, 8 or 16
  int warps;   // that share K
  int depth;   // lines of every row that a warp has in flight
  int steps;   // of `depth` lines of a warp, of which A lies in shared memory at a time, at most
  int blocks;  // on a multiprocessor at a time

  bool operator==(const GemvDequantGpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("weight", self.weight);
    visit("scale", self.scale);
    visit("group", self.group);
    visit("zero", self.zero);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("rows", self.rows);
    visit("tokens", self.tokens);
    visit("warps", self.warps);
    visit("depth", self.depth);
    visit("steps", self.steps);
    visit("blocks", self.blocks);
  }
};

constexpr GemmEpilogueConfig gemv_dequant_gpu_epilogue(const GemvDequantGpuConfig& c) {
  return {c.epilogue, c.activation, c.gate, c.d_dtype};
}

// The order of K. Four threads share a row; each loads `piece` consecutive bytes of it, four pieces are a line. Where sums of
// groups stand apart no line has more than one group.
constexpr int gemv_dequant_gpu_piece(const GemvDequantGpuConfig& c) {
  const int of_group = c.group * dtype_bits(c.weight) / 8 / 4;
  return narrow_weights_promote(c) && of_group < 16 ? of_group : 16;
}
constexpr int gemv_dequant_gpu_piece_k(const GemvDequantGpuConfig& c) {
  return gemv_dequant_gpu_piece(c) * 8 / dtype_bits(c.weight);
}
constexpr int gemv_dequant_gpu_line_k(const GemvDequantGpuConfig& c) { return 4 * gemv_dequant_gpu_piece_k(c); }
// Eight values of a piece are multiplied at a time, one word of 4-bit weights or two of 8 bits, by two instructions that take
// four of them each. Which one is half `half` of the pair `pair`, 0 to 3.
constexpr int gemv_dequant_gpu_value(const GemvDequantGpuConfig& c, int pair, int half) {
  if (dtype_bits(c.weight) == 4) return pair_value(c.weight, pair, half);
  return pair / 2 * 4 + pair_value(c.weight, pair % 2, half);
}

constexpr int gemv_dequant_gpu_threads(const GemvDequantGpuConfig& c) { return 32 * c.warps; }
// Values of K of a step of all warps.
constexpr int gemv_dequant_gpu_step_k(const GemvDequantGpuConfig& c) {
  return c.warps * c.depth * gemv_dequant_gpu_line_k(c);
}
// Slices of K: A of one of them is in shared memory at a time. All have the same number of steps.
constexpr int64 gemv_dequant_gpu_slices(const GemvDequantGpuConfig& c, int64 k) {
  const int64 slice = static_cast<int64>(c.steps) * gemv_dequant_gpu_step_k(c);
  return k <= slice ? 1 : (k + slice - 1) / slice;
}
constexpr int64 gemv_dequant_gpu_slice_steps(const GemvDequantGpuConfig& c, int64 k) {
  const int64 slice = gemv_dequant_gpu_slices(c, k) * gemv_dequant_gpu_step_k(c);
  return k <= slice ? 1 : (k + slice - 1) / slice;
}
// Tiles along `n`, the columns of B. Half a tile of either half of a separated gate is as much.
constexpr int64 gemv_dequant_gpu_tiles(const GemvDequantGpuConfig& c, int64 n) { return (n + c.rows - 1) / c.rows; }

// Tiles whose sums wait in shared memory for the next slice of K.
inline constexpr int kGemvDequantHeld = 16;
// Sums of a tile, [tokens][pitch].
constexpr int gemv_dequant_gpu_pitch(const GemvDequantGpuConfig& c) { return c.rows + 1; }
constexpr int gemv_dequant_gpu_sums(const GemvDequantGpuConfig& c) { return c.tokens * gemv_dequant_gpu_pitch(c); }
constexpr int gemv_dequant_gpu_token_bytes(const GemvDequantGpuConfig& c, int64 steps) {
  return static_cast<int>(steps) * gemv_dequant_gpu_step_k(c) * c.tokens * 2;
}
// Units of work whose sums may stand in shared memory at a time: so far may a warp be ahead of another.
constexpr int gemv_dequant_gpu_turns(const GemvDequantGpuConfig& c) { return c.tokens > 4 ? 2 : 4; }
// A of a slice, sums of every warp, of each turn; sums that wait, if there are several slices; counts.
constexpr int gemv_dequant_gpu_shared_bytes(const GemvDequantGpuConfig& c, int64 steps, int64 slices) {
  const int turns = gemv_dequant_gpu_turns(c), waiting = slices > 1 ? kGemvDequantHeld : 0;
  return gemv_dequant_gpu_token_bytes(c, steps) + ((turns * c.warps + waiting) * gemv_dequant_gpu_sums(c) + turns) * 4;
}

// What the host counts out, so that no kernel begins with divisions.
struct GemvDequantGpuCut {
  int of_batch;       // tiles of an entry of the batch
  int slices, steps;  // of K; of a warp in a slice
  int share, extra;   // tiles of a block; blocks that have one more
};
constexpr GemvDequantGpuCut gemv_dequant_gpu_cut(const GemvDequantGpuConfig& c, int64 n, int64 k, int64 batch,
                                                 int64 blocks) {
  const int64 of_batch = gemv_dequant_gpu_tiles(c, n), tiles = of_batch * batch;
  return {static_cast<int>(of_batch), static_cast<int>(gemv_dequant_gpu_slices(c, k)),
          static_cast<int>(gemv_dequant_gpu_slice_steps(c, k)), static_cast<int>(tiles / blocks),
          static_cast<int>(tiles % blocks)};
}
struct GemvDequantGpuArgs {
  GemmScaledArgs product;  // strides of rows and of scales below 2^31
  GemvDequantGpuCut cut;
};

// Null, or why there is no kernel of this config; what a target allows besides is the host's to ask.
constexpr const char* gemv_dequant_gpu_refusal(const GemvDequantGpuConfig& c) {
  if (const char* reason = narrow_weights_refusal(c)) return reason;
  if (c.rows < 16 || c.rows > 96 || c.rows % 16 != 0) return "rows are none of 16, 32, 48, 64, 80, 96";
  if (c.tokens != 1 && c.tokens != 2 && c.tokens != 4 && c.tokens != 8 && c.tokens != 16) {
    return "tokens are none of 1, 2, 4, 8, 16";
  }
  if (c.warps < 1 || c.warps > 16) return "warps outside [1, 16]";
  if (c.depth < 1 || c.depth > 8) return "depth outside [1, 8]";
  if (c.zero != DType::kNone && dtype_bits(c.zero) == 4 && c.rows > 16 && c.rows * c.depth >= 64) {
    return "rows, lines and zero points on their way: too many registers";
  }
  if (c.steps < 1 || c.steps > 64) return "steps outside [1, 64]";
  if (c.blocks < 1 || c.blocks * c.warps > 48) return "more than 48 warps on a multiprocessor";
  return nullptr;
}

}  // namespace tilewright
