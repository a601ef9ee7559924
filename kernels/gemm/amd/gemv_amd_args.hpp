// SPDX-License-Identifier: MIT
// What host and gemv_amd share: its config, what follows from it, and how a problem is cut. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

// How the weights lie in memory.
enum class GemvAmdWeights : unsigned char {
  kRows,     // [N, K], K contiguous: chunks of 16 bytes along K
  kColumns,  // [K, N], N contiguous: pieces of blocks_n columns, transposed in registers
  kPacked,   // gemm_pack_weights: pieces of blocks_n columns of a line
};
inline constexpr const char* kGemvAmdWeightsNames[] = {"rows", "columns", "packed"};
constexpr const char* const* enum_names(GemvAmdWeights) { return kGemvAmdWeightsNames; }
constexpr int enum_count(GemvAmdWeights) { return 3; }

struct GemvAmdConfig {
  static constexpr const char* kTypeName = "GemvAmdConfig";
  DType dtype;  // of A and B
  int wave;     // lanes of the target's waves
  GemvAmdWeights weights;
  int a_copy;    // bytes of a chunk of A: 16 along K, or 0 = by elements, of any strides
  int tile_m;    // rows of A: 16 or 32
  int blocks_n;  // of 16 columns of B, of a workgroup
  int tile_k;    // that a wave brings at a time, twice in flight
  int waves;     // that share K
  EpilogueKind epilogue;
  Activation activation;
  GateMode gate;
  DType d_dtype;

  bool operator==(const GemvAmdConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("wave", self.wave);
    visit("weights", self.weights);
    visit("a_copy", self.a_copy);
    visit("tile_m", self.tile_m);
    visit("blocks_n", self.blocks_n);
    visit("tile_k", self.tile_k);
    visit("waves", self.waves);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
  }
  constexpr GemmEpilogueConfig epilogue_config() const { return {epilogue, activation, gate, d_dtype}; }
};

enum class GemvAmdPhase : int {
  kWork,    // D, or, where K is cut, partial sums
  kReduce,  // adds the partial sums in the order of K and writes D
};

struct GemvAmdArgs {
  GemmArgs gemm;
  GemvAmdPhase phase;
  unsigned groups;   // of columns, of one entry of the batch
  unsigned splits;   // of K
  unsigned split_k;  // steps of tile_k in a part; 0 = all of them
};

// The largest M that a kernel takes.
inline constexpr int kGemvAmdRows = 32;

struct GemvAmdShape {
  int size;             // of an element
  int threads, tile_n;  // columns of B of a workgroup
  int row_bytes;        // of K that a wave brings at a time
  int unit;             // of memory along N: an element, or of packed weights the k of one column in a line
  int piece_bytes;      // of a load of weights by a lane
  int pitch;            // of a row of sums in LDS
  int lds_waves;        // whose sums are there at a time
  int lds_bytes;
};
constexpr GemvAmdShape gemv_amd_shape(const GemvAmdConfig& c) {
  GemvAmdShape s{};
  s.size = dtype_bits(c.dtype) / 8;
  s.threads = c.wave * c.waves;
  s.tile_n = 16 * c.blocks_n;
  s.row_bytes = c.tile_k * s.size;
  s.unit = c.weights == GemvAmdWeights::kPacked ? static_cast<int>(packed_line_bytes(c.dtype)) / kPanelColumns : s.size;
  s.piece_bytes = c.weights == GemvAmdWeights::kRows ? 16 : c.blocks_n * s.unit;
  s.pitch = s.tile_n + 1;
  constexpr int kMostLds = 40960;
  const int sums = c.tile_m * s.pitch * 4;
  s.lds_waves = c.waves < 4 ? c.waves : 4;
  while (s.lds_waves > 1 && s.lds_waves * sums > kMostLds) s.lds_waves /= 2;
  s.lds_bytes = s.lds_waves * sums;
  return s;
}

// Null, or why no kernel has this config; which instructions there are, the host knows of each target.
constexpr const char* gemv_amd_refusal(const GemvAmdConfig& c) {
  const int bits = dtype_bits(c.dtype);
  if (bits != 32 && bits != 16 && bits != 8) return "dtype is of 32, 16 or 8 bits";
  if (c.wave != 64 && c.wave != 32) return "waves are of 64 or 32 lanes";
  if (c.a_copy != 16 && c.a_copy != 0) return "a_copy is 16 or 0";
  if (c.tile_m != 16 && c.tile_m != 32) return "tile_m is 16 or 32";
  const bool known = c.waves == 1 || c.waves == 2 || c.waves == 4 || c.waves == 8 || c.waves == 16;
  if (!known || c.wave * c.waves > 1024) return "waves are 1, 2, 4, 8 or 16, of at most 1024 work-items";
  const GemvAmdShape s = gemv_amd_shape(c);
  if (s.row_bytes < 16 || s.row_bytes > 512) return "tile_k is of 16 to 512 bytes";
  if (c.weights == GemvAmdWeights::kRows) {
    if (c.blocks_n != 1 && c.blocks_n != 2 && c.blocks_n != 4) return "rows of weights come 16, 32 or 64 at a time";
  } else {
    if (c.blocks_n != 4 && c.blocks_n != 8 && c.blocks_n != 16) return "pieces are of 4, 8 or 16 columns";
    if (s.piece_bytes > 16) return "pieces are of at most 16 bytes";
  }
  if (c.epilogue != EpilogueKind::kLinear && c.activation != Activation::kNone) return "activation belongs to linear";
  if (c.epilogue == EpilogueKind::kPlain && c.gate != GateMode::kNone) return "a gate belongs to linear or full";
  if (c.d_dtype != DType::kNone && c.d_dtype != DType::kF32 && c.d_dtype != DType::kBf16 && c.d_dtype != DType::kF16) {
    return "d_dtype is none of f32, bf16, f16, none";
  }
  return nullptr;
}

// Half a group of either half of a separated gate is as much.
constexpr int64 gemv_amd_groups(const GemvAmdConfig& c, int64 n) {
  return (n + 16 * c.blocks_n - 1) / (16 * c.blocks_n);
}
constexpr int64 gemv_amd_steps(const GemvAmdConfig& c, int64 k) { return (k + c.tile_k - 1) / c.tile_k; }
// Parts of K, `split_k` steps each; 0 = all.
constexpr int64 gemv_amd_splits(const GemvAmdConfig& c, int64 k, int64 split_k) {
  const int64 steps = gemv_amd_steps(c, k);
  return split_k > 0 && split_k < steps ? (steps + split_k - 1) / split_k : 1;
}
// Partial sums, [batch][group][part][tile_m][tile_n].
constexpr int64 gemv_amd_workspace_bytes(const GemvAmdConfig& c, int64 n, int64 k, int64 batch, int64 split_k) {
  const int64 splits = gemv_amd_splits(c, k, split_k);
  return splits > 1 ? gemv_amd_groups(c, n) * batch * splits * c.tile_m * 16 * c.blocks_n * 4 : 0;
}

}  // namespace tilewright
