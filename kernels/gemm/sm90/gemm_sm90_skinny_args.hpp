// SPDX-License-Identifier: MIT
// What host and gemm_sm90_skinny share: its config, its arguments, what lies in shared memory and in the workspace.
// Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright {

struct GemmSm90SkinnyConfig {
  static constexpr const char* kTypeName = "GemmSm90SkinnyConfig";
  DType dtype;  // of A and B
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  int rows;     // of the weights (columns of B) a block: 64, 128 or 256; two warpgroups at most
  int tokens;   // rows of A: 8, 16, 32, 64 or 128
  int stages;   // tiles in flight
  int cluster;  // blocks that share the tiles of A
  int blocks;   // on a multiprocessor at a time

  bool operator==(const GemmSm90SkinnyConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("rows", self.rows);
    visit("tokens", self.tokens);
    visit("stages", self.stages);
    visit("cluster", self.cluster);
    visit("blocks", self.blocks);
  }
};

constexpr GemmEpilogueConfig gemm_sm90_skinny_epilogue(const GemmSm90SkinnyConfig& c) {
  return {c.epilogue, c.activation, c.gate, c.d_dtype};
}

struct GemmSm90SkinnyArgs {
  TensorMap a, b;  // [batch, M, K], [batch, N, K]
  GemmArgs gemm;
  bool batch_a, batch_b;  // false: one matrix serves every entry of the batch
  int splits;             // clusters that share the K of a tile; 0: all clusters get the same share of all tiles
  int share, extra;       // tiles of K a part has: `share`, and one more the first `extra` parts
};

// Rows of the weights that one copy brings: of a separated gate each warp has 8 rows of gate and the 8 of up.
constexpr int gemm_sm90_skinny_box_rows(const GemmSm90SkinnyConfig& c) {
  return c.gate == GateMode::kSeparated ? 8 : c.rows;
}
inline constexpr int kSkinnyRowBytes = 128;
// Sums on their way to D: a warp's 16 rows by up to 16 tokens. Floats from token to token: writes meet no bank twice.
inline constexpr int kSkinnyPitch = 20;
constexpr int gemm_sm90_skinny_box_tokens(const GemmSm90SkinnyConfig& c) { return c.tokens < 16 ? c.tokens : 16; }
constexpr int gemm_sm90_skinny_box_bytes(const GemmSm90SkinnyConfig& c) {
  return gemm_sm90_skinny_box_tokens(c) * kSkinnyPitch * 4;
}
constexpr int gemm_sm90_skinny_warpgroups(const GemmSm90SkinnyConfig& c) { return c.rows > 64 ? 2 : 1; }
constexpr int gemm_sm90_skinny_threads(const GemmSm90SkinnyConfig& c) {
  return gemm_sm90_skinny_warpgroups(c) * 128 + 32;
}
constexpr int gemm_sm90_skinny_shared_bytes(const GemmSm90SkinnyConfig& c) {
  const int tiles = c.stages * (c.rows + c.tokens) * kSkinnyRowBytes;
  return tiles + gemm_sm90_skinny_warpgroups(c) * 4 * gemm_sm90_skinny_box_bytes(c) + c.tokens * 4 + 2 * c.stages * 8;
}
// A block's sums in the workspace, which holds zeros between calls.
constexpr int64 gemm_sm90_skinny_slot_bytes(const GemmSm90SkinnyConfig& c) {
  return static_cast<int64>(c.rows) * c.tokens * 4;
}

// How clusters share the work of a problem.
struct GemmSm90SkinnyCut {
  int64 tiles, chunks;  // of a cluster's columns over the batch; of K
  int64 steps;          // all tiles of all K
  int64 clusters;       // that are launched
  int64 share, extra;   // GemmSm90SkinnyArgs
  int64 exchange_bytes;
};
inline constexpr int kSkinnyMaxSplits = 8;
constexpr GemmSm90SkinnyCut gemm_sm90_skinny_cut(const GemmSm90SkinnyConfig& c, int64 n, int64 k, int64 batch,
                                                 int64 splits, int64 units) {
  const int64 columns = static_cast<int64>(c.rows) * c.cluster, tile_k = kSkinnyRowBytes * 8 / dtype_bits(c.dtype);
  const int64 all = units * c.blocks / c.cluster, present = all < 1 ? 1 : all;
  GemmSm90SkinnyCut cut{};
  cut.tiles = (n + columns - 1) / columns * batch;
  cut.chunks = (k + tile_k - 1) / tile_k;
  cut.steps = cut.tiles * cut.chunks;
  const int64 parts = splits > 0 ? cut.tiles * splits : cut.steps, pieces = splits > 0 ? cut.chunks : cut.steps;
  cut.clusters = parts < present ? parts : present;
  const int64 among = splits > 0 ? splits : cut.clusters;
  cut.share = pieces / among, cut.extra = pieces % among;
  const int64 slots = splits > 1 ? parts : splits == 0 ? cut.clusters : 0;
  cut.exchange_bytes = slots * c.cluster * gemm_sm90_skinny_slot_bytes(c);
  return cut;
}

// Null, or why there is no kernel of this config; what a target allows besides is the host's to ask.
constexpr const char* gemm_sm90_skinny_refusal(const GemmSm90SkinnyConfig& c) {
  if (dtype_bits(c.dtype) > 16) return "dtype has more than 16 bits";
  if (c.epilogue == EpilogueKind::kFull) return "a full epilogue has no place in registers";
  if (c.rows != 64 && c.rows != 128 && c.rows != 256) return "rows are none of 64, 128, 256";
  if (c.tokens != 8 && c.tokens != 16 && c.tokens != 32 && c.tokens != 64 && c.tokens != 128) {
    return "tokens are none of 8, 16, 32, 64, 128";
  }
  if (c.rows * c.tokens > 128 * 128) return "more sums than two warpgroups' registers hold";
  if (c.stages < 2 || c.stages > 24) return "stages outside [2, 24]";
  if (c.cluster != 1 && c.cluster != 2) return "cluster is none of 1, 2";
  if (c.tokens / c.cluster < 8) return "a block brings less than 8 tokens";
  if (c.blocks != 1 && c.blocks != 2) return "blocks are none of 1, 2";
  return nullptr;
}

}  // namespace tilewright
