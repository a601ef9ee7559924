// SPDX-License-Identifier: MIT
// What host and grouped_gemm_sm90 share: its config, its arguments, how rows of a group are cut in tiles, and what lies in
// shared memory. Freestanding.
#pragma once

#include "gemm/sm90/gemm_sm90_args.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"
#include "grouped_gemm/grouped_gemm_args.hpp"

namespace tilewright {

// Who stands on the 64-row side of wgmma; the other one has its columns.
enum class GroupedTall : unsigned char {
  kWeights,  // tokens go by 16
  kTokens,   // tokens go by 64, and a thread's sums have two rows' scales, not two of each eight columns'
};
inline constexpr const char* kGroupedTallNames[] = {"weights", "tokens"};
constexpr const char* const* enum_names(GroupedTall) { return kGroupedTallNames; }
constexpr int enum_count(GroupedTall) { return 2; }

struct GroupedGemmSm90Config {
  static constexpr const char* kTypeName = "GroupedGemmSm90Config";
  DType dtype;  // of A and B
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  Promotion promote;  // of 8-bit floats
  int rows;           // of the weights (columns of B) a tile: 64, 128 or 256
  int tokens;         // rows of A a tile at most: a multiple of `step`, 16 to 256
  int step;           // a tile has a multiple of so many: 16, 32 or 64; what is left of the last one is padding
  int warpgroups;     // that multiply: 1 or 2, of 64 or 128 rows each
  int depth;          // a stage holds so many tiles of 128 bytes of K: 1, 2 or 4
  int stages;         // in flight
  int cluster;        // blocks with the same tokens and neighbouring weights: 1, 2 or 4
  GroupedTall tall;

  bool operator==(const GroupedGemmSm90Config&) const = default;
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
    visit("step", self.step);
    visit("warpgroups", self.warpgroups);
    visit("depth", self.depth);
    visit("stages", self.stages);
    visit("cluster", self.cluster);
    visit("tall", self.tall);
  }
};

// Boxes of A that the copy engine brings: 16, 32, 64 and 128 rows. A tile's rows are made of them.
inline constexpr int kGroupedBoxes = 4;
inline constexpr int kGroupedSmallestBox = 16;

// Blocks that take tiles from a counter leave it at zero: the last one, by a second counter.
struct GroupedCounters {
  unsigned taken, done;
};

struct GroupedGemmSm90Args {
  GemmSm90SkinnyArgs product;       // `a` is no tensor map here
  TensorMap tokens[kGroupedBoxes];  // A, by boxes of that many rows
  GroupArgs groups;
  int raster;                 // tiles of A's rows that are walked together
  GroupedCounters* counters;  // null: block b of n takes the tiles b, b + n, ...
};

// The parts of gemm_sm90_skinny that are shared, D and its epilogue among them, see that kernel's config with as many tokens
// as the tile at hand has.
constexpr GemmSm90SkinnyConfig grouped_sm90_product(const GroupedGemmSm90Config& c, int tokens) {
  return {.dtype = c.dtype,
          .epilogue = c.epilogue,
          .activation = c.activation,
          .gate = c.gate,
          .d_dtype = c.d_dtype,
          .promote = c.promote,
          .rows = c.rows,
          .tokens = tokens,
          .warpgroups = c.warpgroups,
          .depth = c.depth,
          .stages = c.stages,
          .cluster = 1,
          .blocks = 1,
          .splits = 1};
}

// Tiles of the weights of a group. Of a separated gate a tile has as many columns of gate as of up.
constexpr int grouped_sm90_columns(const GroupedGemmSm90Config& c, int64 n) {
  const int rows = gemm_sm90_skinny_box_rows(grouped_sm90_product(c, c.tokens));
  return static_cast<int>(((c.gate == GateMode::kSeparated ? n / 2 : n) + rows - 1) / rows);
}
// The same in tiles of a cluster, of which the last may reach past the weights by whole tiles.
constexpr int grouped_sm90_cluster_columns(const GroupedGemmSm90Config& c, int64 n) {
  return (grouped_sm90_columns(c, n) + c.cluster - 1) / c.cluster;
}

// How the rows of a group are cut: in as few tiles as hold them, of sizes that differ by one step at most.
struct GroupedRows {
  int steps, tiles;
};
struct GroupedPiece {
  int first, steps;  // rows from the group's first one on; how many steps
};
constexpr GroupedRows grouped_rows(int rows, int step, int tokens) {
  const int steps = (rows + step - 1) / step, most = tokens / step;
  return {steps, (steps + most - 1) / most};
}
constexpr GroupedPiece grouped_piece(const GroupedRows& r, int index, int step) {
  const int each = r.steps / r.tiles, longer = r.steps - each * r.tiles;
  return {(index * each + (index < longer ? index : longer)) * step, each + (index < longer ? 1 : 0)};
}

// What everyone in a block must know of a tile, for two tiles in turn.
struct alignas(16) GroupedTile {
  int group, row;      // its first row: of A and D (contiguous), of the group (masked)
  int rows, steps;     // that exist, and what they are rounded up to; no steps: there are no more tiles
  int column, pad[3];  // of tiles of the weights: of the cluster as it is walked, of the block as it is told
};
inline constexpr int kGroupedSlots = 2;

// Tokens on the tall side: a warpgroup's 64 rows, one after another, of a tile's and at most. Those of the next one begin in
// shared memory where they do in the widest tile.
constexpr GroupedPiece grouped_tall_piece(const GroupedGemmSm90Config& c, int steps, int warpgroup) {
  return grouped_piece({steps, c.warpgroups}, warpgroup, c.step);
}
constexpr int grouped_tall_parts(const GroupedGemmSm90Config& c) { return c.tokens / 64 / c.warpgroups; }
inline constexpr int kGroupedTallStep = 64, kGroupedTallColumns = 128;  // of tokens; of a product
// A warpgroup's D, as gemm_sm90 sees it.
constexpr GemmSm90Config grouped_sm90_words(const GroupedGemmSm90Config& c) {
  return {.dtype = c.dtype,
          .a_major = Major::kK,
          .b_major = Major::kK,
          .epilogue = EpilogueKind::kPlain,
          .activation = Activation::kNone,
          .gate = GateMode::kNone,
          .d_dtype = c.d_dtype,
          .d_words = true,
          .promote = c.promote,
          .tile_m = c.tokens / c.warpgroups,
          .tile_n = c.rows,
          .warpgroups = 1,
          .stages = 1,
          .cluster_m = 1,
          .cluster_n = 1};
}

// Rows of a tile that a block of the cluster asks for, for all: its share of whole smallest boxes.
struct GroupedShare {
  int first, end;
};
constexpr GroupedShare grouped_share(int rows, int block, int cluster) {
  const int boxes = rows / kGroupedSmallestBox;
  return {boxes * block / cluster * kGroupedSmallestBox, boxes * (block + 1) / cluster * kGroupedSmallestBox};
}
// The most that may be.
constexpr int grouped_most_share(const GroupedGemmSm90Config& c) {
  return (c.tokens / kGroupedSmallestBox + c.cluster - 1) / c.cluster * kGroupedSmallestBox;
}

// Registers of what is summed apart, of its scales and of all sums: columns of one product. Wider tiles take two.
inline constexpr int kGroupedApartTokens = 160;
constexpr int grouped_apart_tokens(int tokens) { return tokens > kGroupedApartTokens ? tokens / 2 : tokens; }

// Tokens of products: each step, and where products are two of half the tokens, of which there are those of multiples of 16,
// every 32.
constexpr int grouped_wider(const GroupedGemmSm90Config& c, int tokens) {
  return tokens < kGroupedApartTokens ? tokens + c.step : (tokens / 32 + 1) * 32;
}

// The producers are a warpgroup of their own, which gives registers to those that multiply.
constexpr int grouped_sm90_threads(const GroupedGemmSm90Config& c) { return (c.warpgroups + 1) * 128; }
// Sums and what is summed apart of a thread.
constexpr int grouped_sm90_sums(const GroupedGemmSm90Config& c) {
  if (c.tall == GroupedTall::kTokens) return (grouped_tall_parts(c) * c.rows + kGroupedTallColumns) / 2;
  const int apart = c.promote != Promotion::kNone ? grouped_apart_tokens(c.tokens) / 2 : 0;
  return c.rows / 64 / c.warpgroups * c.tokens / 2 + apart;
}

// A thread's, once warpgroups have shared them out. Few sums leave some to who walks the groups: it reads the numbers of 128
// at once then, not of 64.
struct GroupedRegisters {
  int producer, consumer;
  int lane_groups;
};
constexpr GroupedRegisters grouped_sm90_registers(const GroupedGemmSm90Config& c) {
  if (grouped_sm90_sums(c) > 128) return {40, 232, 2};
  return {56, 224, 4};
}

constexpr int grouped_sm90_stage_bytes(const GroupedGemmSm90Config& c) {
  return c.depth * (c.rows + c.tokens) * kSkinnyRowBytes;
}
// The scales of all stages, in whole lines.
constexpr int grouped_sm90_scale_bytes(const GroupedGemmSm90Config& c) {
  const int scales = gemm_sm90_skinny_tile_scales(grouped_sm90_product(c, c.tokens));
  return (c.stages * c.depth * scales * 4 + 15) / 16 * 16;
}
// D on its way: of a warpgroup. Tokens on the tall side: what it knows of two tiles besides.
constexpr int grouped_sm90_box_bytes(const GroupedGemmSm90Config& c) {
  if (c.tall == GroupedTall::kTokens) {
    return (kSm90StagingBytes + kSm90Slots * gemm_sm90_slot_bytes(grouped_sm90_words(c)) + 127) / 128 * 128;
  }
  return 4 * gemm_sm90_skinny_box_bytes(grouped_sm90_product(c, c.tokens < 32 ? c.tokens : 32));
}
constexpr int grouped_sm90_shared_bytes(const GroupedGemmSm90Config& c) {
  const int barriers = (3 * c.stages + 2 * kGroupedSlots) * 8;
  return c.stages * grouped_sm90_stage_bytes(c) + c.warpgroups * grouped_sm90_box_bytes(c) + c.tokens * 4 +
         kGroupedSlots * static_cast<int>(sizeof(GroupedTile)) + grouped_sm90_scale_bytes(c) + barriers;
}

// Null, or why there is no kernel of this config; what a target allows besides is the host's to ask.
constexpr const char* grouped_sm90_refusal(const GroupedGemmSm90Config& c) {
  if (dtype_bits(c.dtype) > 16) return "dtype has more than 16 bits";
  if (const char* reason = promotion_refusal(c.promote, c.dtype)) return reason;
  if (c.epilogue == EpilogueKind::kFull) return "a full epilogue has no place in registers";
  if (c.rows != 64 && c.rows != 128 && c.rows != 256) return "rows are none of 64, 128, 256";
  if (c.warpgroups != 1 && c.warpgroups != 2) return "warpgroups are none of 1, 2";
  const int parts = c.rows / 64 / c.warpgroups;
  if (parts != 1 && parts != 2) return "a warpgroup has neither 64 rows nor 128";
  if (c.gate == GateMode::kSeparated && parts != 2) return "a separated gate wants 128 rows a warpgroup";
  if (c.step != 16 && c.step != 32 && c.step != 64) return "step is none of 16, 32, 64";
  if (c.tokens < 16 || c.tokens > 256 || c.tokens % c.step != 0) return "tokens are no multiple of step from 16 to 256";
  // D leaves 32 tokens at a time.
  if (c.tokens > 16 && c.tokens % 32 != 0) return "tokens past 16 are no multiple of 32";
  if (c.epilogue == EpilogueKind::kLinear && c.tokens > 128 * c.warpgroups) return "tokens: more than threads";
  if (grouped_sm90_sums(c) > 208) return "more sums than a thread's registers hold";
  if (c.depth != 1 && c.depth != 2 && c.depth != 4) return "depth is none of 1, 2, 4";
  if (c.stages < 2 || c.stages > 24) return "stages outside [2, 24]";
  if (c.cluster != 1 && c.cluster != 2 && c.cluster != 4) return "cluster is none of 1, 2, 4";
  if (c.tall == GroupedTall::kTokens) {
    if (c.promote == Promotion::kNone) return "tall tokens: products are summed apart";
    if (c.epilogue != EpilogueKind::kPlain || dtype_bits(c.d_dtype) != 16) return "tall tokens: D is plain, of 16 bits";
    if (c.rows % kGroupedTallColumns != 0) return "tall tokens: rows are no multiple of 128";
    if (c.step != kGroupedTallStep || c.tokens % (c.step * c.warpgroups) != 0)
      return "tall tokens go by 64 a warpgroup";
    if (c.depth != 1) return "tall tokens: depth is 1";
  }
  return nullptr;
}

}  // namespace tilewright
