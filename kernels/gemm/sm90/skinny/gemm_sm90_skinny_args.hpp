// SPDX-License-Identifier: MIT
// What host and gemm_sm90_skinny share: its config, its arguments, what lies in shared memory and in the workspace.
// Freestanding.
#pragma once

#include "gemm/sm90/gemm_sm90_promotion.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright {

struct GemmSm90SkinnyConfig {
  static constexpr const char* kTypeName = "GemmSm90SkinnyConfig";
  DType dtype;  // of A and B
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  Promotion promote;  // of 8-bit floats
  int rows;           // of the weights (columns of B) a block: 64, 128 or 256
  int tokens;         // rows of A: 8, 16, 32, 64 or 128
  int warpgroups;     // that multiply: 1 or 2, of at most 128 rows each
  int depth;          // a stage holds so many tiles of 128 bytes of K: 1, 2 or 4
  int stages;         // in flight
  int cluster;        // blocks that share the tiles of A; where it is `splits`, those that share the K of a tile
  int blocks;         // on a multiprocessor at a time
  int splits;  // clusters that share the K of a tile: 1, 2, 4, 8, blocks of one also 3, 6; 0: equal shares of all

  bool operator==(const GemmSm90SkinnyConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("promote", self.promote);
    visit("rows", self.rows);
    visit("tokens", self.tokens);
    visit("warpgroups", self.warpgroups);
    visit("depth", self.depth);
    visit("stages", self.stages);
    visit("cluster", self.cluster);
    visit("blocks", self.blocks);
    visit("splits", self.splits);
  }
};

constexpr GemmEpilogueConfig gemm_sm90_skinny_epilogue(const GemmSm90SkinnyConfig& c) {
  return {c.epilogue, c.activation, c.gate, c.d_dtype};
}

struct GemmSm90SkinnyArgs {
  TensorMap a, b;  // [batch, M, K], [batch, N, K]
  GemmArgs gemm;
  bool batch_a, batch_b;  // false: one matrix serves every entry of the batch
  int share, extra;       // steps of K a part has: `share`, and one more the first `extra` parts
  int stage_tokens;       // rows of A that a stage has; those behind them are columns of the product that nobody keeps
  GemmScaleArgs scale;    // Promotion::kScaled
};

// The parts of a tile are the blocks of a cluster, which run at a time whatever else does, and add their sums in shared memory.
constexpr bool gemm_sm90_skinny_parts_meet(const GemmSm90SkinnyConfig& c) {
  return c.splits > 1 && c.cluster == c.splits;
}
// Blocks side by side that have the same tokens and part of K.
constexpr int gemm_sm90_skinny_sharers(const GemmSm90SkinnyConfig& c) {
  return gemm_sm90_skinny_parts_meet(c) ? 1 : c.cluster;
}

inline constexpr int kSkinnyRowBytes = 128;
// Rows of the weights that one copy brings. Of a separated gate a warpgroup has 64 rows of gate and the 64 of up: D's
// value is made of sums of one thread.
constexpr int gemm_sm90_skinny_box_rows(const GemmSm90SkinnyConfig& c) {
  return c.gate == GateMode::kSeparated ? c.rows / 2 : c.rows;
}
// Columns of D that a block completes.
constexpr int gemm_sm90_skinny_d_columns(const GemmSm90SkinnyConfig& c) {
  return c.gate == GateMode::kNone ? c.rows : c.rows / 2;
}

// D on its way, a warp's 16 columns of it: packed values of up to 32 tokens, or floats of up to 16. From token to token
// so far that accesses meet no bank twice.
constexpr bool gemm_sm90_skinny_packs(const GemmSm90SkinnyConfig& c) {
  return (c.d_dtype == DType::kBf16 || c.d_dtype == DType::kF16) && c.gate != GateMode::kInterleaved;
}
inline constexpr int kSkinnyFloatPitch = 20, kSkinnyPackedPitch = 48;  // floats; bytes
constexpr int gemm_sm90_skinny_box_bytes(const GemmSm90SkinnyConfig& c) {
  if (gemm_sm90_skinny_packs(c)) return (c.tokens < 32 ? 16 : 32) * kSkinnyPackedPitch;
  return (c.tokens < 16 ? 8 : 16) * kSkinnyFloatPitch * 4;
}
// Sums that 168 registers do not hold: the producers are then a warpgroup too, which gives registers away.
constexpr bool gemm_sm90_skinny_lends(const GemmSm90SkinnyConfig& c) {
  return c.warpgroups == 2 && c.rows / 128 * c.tokens + (c.promote != Promotion::kNone ? 64 : 0) > 128;
}
constexpr int gemm_sm90_skinny_threads(const GemmSm90SkinnyConfig& c) {
  return c.warpgroups * 128 + (gemm_sm90_skinny_lends(c) ? 128 : 64);
}
// Scales of a tile of K: of the tokens, then of the blocks of 128 rows of the weights, or of the one that they are part of. Of
// a separated gate: gate's and up's.
constexpr int gemm_sm90_skinny_scale_blocks(const GemmSm90SkinnyConfig& c) {
  if (c.gate == GateMode::kSeparated) return 2;
  return (c.rows + kPromotedScaleBlock - 1) / kPromotedScaleBlock;
}
// Which of them part `part` of a warpgroup's rows has.
constexpr int gemm_sm90_skinny_scale_block(const GemmSm90SkinnyConfig& c, int part) {
  return c.gate == GateMode::kSeparated ? part : part * c.warpgroups * 64 / kPromotedScaleBlock;
}
constexpr int gemm_sm90_skinny_tile_scales(const GemmSm90SkinnyConfig& c) {
  return c.promote == Promotion::kScaled ? c.tokens + gemm_sm90_skinny_scale_blocks(c) : 0;
}
// Groups of eight tokens that a part of a tile completes, a power of two as their number is; where these are fewer than parts, some
// parts complete none.
constexpr int gemm_sm90_skinny_own_groups(const GemmSm90SkinnyConfig& c) {
  if (c.splits < 2) return c.tokens / 8;
  int own = 1;
  while (own * c.splits < c.tokens / 8) own *= 2;
  return own;
}
// Parts from one that completes groups to the next.
constexpr int gemm_sm90_skinny_own_stride(const GemmSm90SkinnyConfig& c) {
  return c.splits < 2 ? 1 : c.splits * gemm_sm90_skinny_own_groups(c) / (c.tokens / 8);
}
// Sums of the other parts, where these meet.
constexpr int gemm_sm90_skinny_met_bytes(const GemmSm90SkinnyConfig& c) {
  if (!gemm_sm90_skinny_parts_meet(c)) return 0;
  return (c.splits - 1) * c.rows * gemm_sm90_skinny_own_groups(c) * 8 * 4;
}
constexpr int gemm_sm90_skinny_shared_bytes(const GemmSm90SkinnyConfig& c) {
  const int tiles = c.stages * c.depth * ((c.rows + c.tokens) * kSkinnyRowBytes + gemm_sm90_skinny_tile_scales(c) * 4);
  const int barriers = 4 * c.stages + (gemm_sm90_skinny_parts_meet(c) ? 2 : 1);
  return tiles + gemm_sm90_skinny_met_bytes(c) + c.warpgroups * 4 * gemm_sm90_skinny_box_bytes(c) + c.tokens * 4 +
         barriers * 8;
}
// A block's sums in the workspace, which holds zeros between calls.
constexpr int64 gemm_sm90_skinny_slot_bytes(const GemmSm90SkinnyConfig& c) {
  return static_cast<int64>(c.rows) * c.tokens * 4;
}

// Multiprocessors that find a cluster. A cluster lies in one of the groups that they come in; what a group has beyond multiples
// of the cluster stays idle. At least so many, as an H200 of 132 says: 117 of clusters of three, 120 of four and eight, 102 of six.
constexpr int64 gemm_sm90_skinny_usable(const GemmSm90SkinnyConfig& c, int64 units) {
  if (c.cluster < 3) return units;
  return units - units / (c.cluster == 3 ? 8 : c.cluster == 6 ? 4 : 11);
}

// How clusters share the work of a problem.
struct GemmSm90SkinnyCut {
  int64 tiles, chunks;  // of a cluster's columns over the batch; steps of K, a stage each
  int64 steps;          // of all tiles
  int64 clusters;       // that are launched; where parts meet, parts
  int64 share, extra;   // GemmSm90SkinnyArgs
  int64 exchange_bytes;
};
constexpr GemmSm90SkinnyCut gemm_sm90_skinny_cut(const GemmSm90SkinnyConfig& c, int64 n, int64 k, int64 batch,
                                                 int64 units) {
  const int sharers = gemm_sm90_skinny_sharers(c);
  const int64 columns = static_cast<int64>(c.rows) * sharers;
  const int64 step_k = static_cast<int64>(c.depth) * kSkinnyRowBytes * 8 / dtype_bits(c.dtype);
  const int64 all = gemm_sm90_skinny_usable(c, units) * c.blocks / c.cluster, present = all < 1 ? 1 : all;
  GemmSm90SkinnyCut cut{};
  cut.tiles = (n + columns - 1) / columns * batch;
  cut.chunks = (k + step_k - 1) / step_k;
  cut.steps = cut.tiles * cut.chunks;
  const int64 parts = c.splits > 0 ? cut.tiles * c.splits : cut.steps;
  const int64 pieces = c.splits > 0 ? cut.chunks : cut.steps;
  cut.clusters = parts < present || gemm_sm90_skinny_parts_meet(c) ? parts : present;
  const int64 among = c.splits > 0 ? c.splits : cut.clusters;
  cut.share = pieces / among, cut.extra = pieces % among;
  const int64 slots = gemm_sm90_skinny_parts_meet(c) || c.splits == 1 ? 0 : c.splits > 1 ? parts : cut.clusters;
  cut.exchange_bytes = slots * c.cluster * gemm_sm90_skinny_slot_bytes(c);
  return cut;
}
// Parts of tiles that are worth asking for: all that find a place, or two rounds of blocks that need not all have one.
constexpr int64 gemm_sm90_skinny_parts_at_a_time(const GemmSm90SkinnyConfig& c, const GemmSm90SkinnyCut& cut,
                                                 int64 units) {
  return gemm_sm90_skinny_parts_meet(c) ? gemm_sm90_skinny_usable(c, units) * c.blocks : 2 * cut.clusters;
}

// Null, or why there is no kernel of this config; what a target allows besides is the host's to ask.
constexpr const char* gemm_sm90_skinny_refusal(const GemmSm90SkinnyConfig& c) {
  if (dtype_bits(c.dtype) > 16) return "dtype has more than 16 bits";
  if (const char* reason = promotion_refusal(c.promote, c.dtype)) return reason;
  if (c.epilogue == EpilogueKind::kFull) return "a full epilogue has no place in registers";
  if (c.promote == Promotion::kScaled && c.rows * c.tokens > 128 * 128) return "scales and sums: too many registers";
  if (c.rows != 64 && c.rows != 128 && c.rows != 256) return "rows are none of 64, 128, 256";
  if (c.tokens != 8 && c.tokens != 16 && c.tokens != 32 && c.tokens != 64 && c.tokens != 128) {
    return "tokens are none of 8, 16, 32, 64, 128";
  }
  if (c.warpgroups != 1 && c.warpgroups != 2) return "warpgroups are none of 1, 2";
  const int parts = c.rows / 64 / c.warpgroups;
  if (parts != 1 && parts != 2) return "a warpgroup has neither 64 rows nor 128";
  if (c.gate == GateMode::kSeparated && parts != 2) return "a separated gate wants 128 rows a warpgroup";
  if (c.warpgroups == 1 && parts * c.tokens > 128) return "more sums than a warpgroup's registers hold";
  if (c.depth != 1 && c.depth != 2 && c.depth != 4) return "depth is none of 1, 2, 4";
  if (c.stages < 2 || c.stages > 24) return "stages outside [2, 24]";
  if (c.cluster != 1 && c.cluster != 2 && c.cluster != 3 && c.cluster != 4 && c.cluster != 6 && c.cluster != 8) {
    return "cluster is none of 1, 2, 3, 4, 6, 8";
  }
  if ((c.cluster == 3 || c.cluster > 4) && c.splits != c.cluster) return "3, 6 and 8 blocks share no tiles of A";
  if (c.rows * c.tokens > 128 * 128 && c.splits != 1) return "so many sums leave no registers to exchange them";
  // How many multiprocessors clusters of four leave idle differs from one chip to the next.
  if (c.cluster == 4 && c.splits != 1 && c.splits != 4)
    return "parts of a tile wait for clusters of which too few may run";
  if (c.tokens / gemm_sm90_skinny_sharers(c) < 8) return "a block brings less than 8 tokens";
  if (c.blocks != 1 && c.blocks != 2) return "blocks are none of 1, 2";
  if (c.splits != 0 && c.splits != 1 && c.splits != 2 && c.splits != 4 && c.splits != 8 && c.splits != c.cluster) {
    return "splits are none of 0, 1, 2, 4, 8, nor the cluster";
  }
  return nullptr;
}

}  // namespace tilewright
