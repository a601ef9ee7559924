// SPDX-License-Identifier: MIT
// What host and gemm_sm90 share: its config, its arguments, what lies in shared memory. Freestanding.
#pragma once

#include "gemm/sm90/gemm_sm90_promotion.hpp"
#include "tile/common/denominator.hpp"
#include "tile/common/tensor_map.hpp"

namespace tilewright {

struct GemmSm90Config {
  static constexpr const char* kTypeName = "GemmSm90Config";
  DType dtype;  // of A and B
  Major a_major, b_major;
  EpilogueKind epilogue;
  Activation activation;  // kLinear
  GateMode gate;
  DType d_dtype;
  bool d_words;              // D is 16-bit, its rows contiguous and at multiples of 16 bytes
  Promotion promote;         // of 8-bit floats
  int tile_m;                // rows of D a block; warpgroups share them
  int tile_n;                // columns of B a block: a multiple of 16 from 64 to 256
  int warpgroups;            // that multiply
  int stages;                // tiles of A and B in flight
  int cluster_m, cluster_n;  // blocks that share tiles of B and of A

  bool operator==(const GemmSm90Config&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("a_major", self.a_major);
    visit("b_major", self.b_major);
    visit("epilogue", self.epilogue);
    visit("activation", self.activation);
    visit("gate", self.gate);
    visit("d_dtype", self.d_dtype);
    visit("d_words", self.d_words);
    visit("promote", self.promote);
    visit("tile_m", self.tile_m);
    visit("tile_n", self.tile_n);
    visit("warpgroups", self.warpgroups);
    visit("stages", self.stages);
    visit("cluster_m", self.cluster_m);
    visit("cluster_n", self.cluster_n);
  }
};

constexpr GemmEpilogueConfig gemm_sm90_epilogue(const GemmSm90Config& c) {
  return {c.epilogue, c.activation, c.gate, c.d_dtype};
}
// Columns of D that a tile gives.
constexpr int gemm_sm90_d_columns(const GemmSm90Config& c) {
  return c.gate == GateMode::kNone ? c.tile_n : c.tile_n / 2;
}

// Columns of B that one instruction multiplies: for what is summed apart there are registers for no more.
constexpr int gemm_sm90_columns_at_once(const GemmSm90Config& c) {
  return c.promote != Promotion::kNone && c.tile_n > 192 ? c.tile_n / 2 : c.tile_n;
}

// How a grid of clusters shares the tiles: `whole` go round evenly, the `rest` in parts.
struct GemmSm90Share {
  int tiles_m, tiles_n;  // of clusters
  int whole, rest;
};
// By what the walk over the tiles divides: tiles of an entry of the batch, of a group of rows of tiles; rows of a group, of the last
// one; parts of a tile that is left over.
struct GemmSm90Walk {
  Denominator tiles, group, rows, last_rows, parts;
  int steps;  // along K
};
struct GemmSm90Args {
  TensorMap a, b;  // [batch, M, K], [batch, N, K] (or with M, N contiguous)
  TensorMap d,
      d_last;  // [batch, M, N], where D leaves by pieces: boxes of 64 columns, and a piece's last, narrower one
  GemmSm90Share share;
  GemmSm90Walk walk;
  GemmArgs gemm;
  bool batch_a, batch_b;  // false: one matrix serves every entry of the batch
  // The tiles that are left when every cluster has had as many are cut along K. Parts exchange sums through `partials`
  // (gemm_sm90_partial_bytes) and meet at `counters`, one for each block and warpgroup, which are zero before and after.
  float* partials;
  unsigned* counters;
  GemmScaleArgs scale;  // Promotion::kScaled
};

// A row of a tile in shared memory, and the K of 16- and 8-bit types that it holds.
inline constexpr int kSm90RowBytes = 128;
constexpr int sm90_tile_k(DType dtype) { return kSm90RowBytes * 8 / dtype_bits(dtype); }

// D of 16 bits passes through boxes of 16 rows of 128 bytes, one for each warp. A tile's last box may be narrower.
inline constexpr int kSm90BoxRows = 16;
inline constexpr int kSm90BoxColumns = 64;
inline constexpr int kSm90BoxBytes = kSm90BoxRows * kSm90RowBytes;
inline constexpr int kSm90StagingBytes = 4 * kSm90BoxBytes;  // of a warpgroup

// Where 8-bit floats are summed apart D leaves by pieces: 64 rows of a warpgroup by the columns of an instruction (of a separated
// gate by all columns of D), in boxes of 64 rows. A piece's last box may be narrower.
constexpr bool gemm_sm90_by_pieces(const GemmSm90Config& c) { return c.d_words && c.promote != Promotion::kNone; }
constexpr int gemm_sm90_piece_columns(const GemmSm90Config& c) {
  return c.gate == GateMode::kSeparated ? gemm_sm90_d_columns(c) : gemm_sm90_columns_at_once(c);
}
constexpr int gemm_sm90_last_columns(const GemmSm90Config& c) {
  return gemm_sm90_piece_columns(c) % kSm90BoxColumns;  // zero: there is no narrower one
}
constexpr int gemm_sm90_pieces(const GemmSm90Config& c) {
  return c.tile_m / c.warpgroups / 64 * (gemm_sm90_d_columns(c) / gemm_sm90_piece_columns(c));
}
constexpr int gemm_sm90_piece_bytes(const GemmSm90Config& c) { return 64 * gemm_sm90_piece_columns(c) * 2; }
// What D passes through, of a warpgroup.
constexpr int gemm_sm90_staging_bytes(const GemmSm90Config& c) {
  return gemm_sm90_by_pieces(c) ? gemm_sm90_pieces(c) * gemm_sm90_piece_bytes(c) : kSm90StagingBytes;
}

// What the warpgroups must know about a tile lies in shared memory, for two tiles in turn: where it is, and scales and bias,
// two floats a column, one a row.
inline constexpr int kSm90Slots = 2;
inline constexpr int kSm90BringingThreads = 96;
struct alignas(16) GemmSm90Tile {
  int m, n, batch;  // of D's first element
  int steps;        // along K; negative: there are no more tiles
  int part, parts, shared_tile;
  int is_last = 0;  // of the block
};
// A long body stands once, in a loop at run time, so that a kernel compiles in a second.
constexpr bool gemm_sm90_is_short(const GemmSm90Config& c) {
  return c.activation == Activation::kNone || c.activation == Activation::kRelu || c.activation == Activation::kSilu;
}
constexpr bool gemm_sm90_has_factors(const GemmSm90Config& c) {
  return c.d_words && c.epilogue == EpilogueKind::kLinear;
}
constexpr int gemm_sm90_slot_bytes(const GemmSm90Config& c) {
  return static_cast<int>(sizeof(GemmSm90Tile)) + (gemm_sm90_has_factors(c) ? c.tile_n * 8 + c.tile_m * 4 : 0);
}

// Columns of a tile that are never divided between two blocks of 128, wherever the tile lies.
constexpr int gemm_sm90_scale_columns(const GemmSm90Config& c) {
  int columns = kPromotedScaleBlock;
  while (c.tile_n % columns != 0) columns /= 2;
  return columns;
}
// Scales of a stage: of the tile's rows, then of the blocks of 128 columns that it may reach; a multiple of 16 bytes.
constexpr int gemm_sm90_scale_blocks(const GemmSm90Config& c) {
  return (c.tile_n - gemm_sm90_scale_columns(c) + kPromotedScaleBlock - 1) / kPromotedScaleBlock + 1;
}
constexpr int gemm_sm90_stage_scales(const GemmSm90Config& c) {
  return c.promote == Promotion::kScaled ? c.tile_m + (gemm_sm90_scale_blocks(c) + 3) / 4 * 4 : 0;
}

constexpr int gemm_sm90_shared_bytes(const GemmSm90Config& c) {
  const int tiles = c.stages * ((c.tile_m + c.tile_n) * kSm90RowBytes + gemm_sm90_stage_scales(c) * 4);
  const int barriers = (2 * c.stages + 3 * kSm90Slots) * 8;
  return tiles + c.warpgroups * gemm_sm90_staging_bytes(c) + kSm90Slots * gemm_sm90_slot_bytes(c) + barriers;
}
// Columns of B that one copy brings: what a block brings of a tile, and no more than one half of a separated gate.
constexpr int gemm_sm90_copy_columns(const GemmSm90Config& c) {
  const int slice = c.tile_n / c.cluster_m;
  return c.gate == GateMode::kSeparated && c.cluster_m == 1 ? slice / 2 : slice;
}

// Null, or why there is no kernel of this config; what a target allows besides is the host's to ask.
constexpr const char* gemm_sm90_refusal(const GemmSm90Config& c) {
  if (c.warpgroups != 1 && c.warpgroups != 2) return "warpgroups are none of 1, 2";
  if (c.tile_m != 64 * c.warpgroups && c.tile_m != 128 * c.warpgroups) return "tile_m is not 64 or 128 a warpgroup";
  if (c.tile_n < 64 || c.tile_n > 256 || c.tile_n % 16 != 0) return "tile_n is no multiple of 16 from 64 to 256";
  if (!c.d_words && c.tile_n % 32 != 0) return "tile_n is no multiple of 32, by which single elements of D are written";
  if (c.tile_m / c.warpgroups * c.tile_n > 64 * 256) return "more sums than a warpgroup's registers hold";
  if (c.stages < 2 || c.stages > 16) return "stages outside [2, 16]";
  if (c.cluster_m < 1 || c.cluster_n < 1 || c.cluster_m * c.cluster_n > 2) return "clusters are none of 1x1, 2x1, 1x2";
  if (const char* reason = promotion_refusal(c.promote, c.dtype)) return reason;
  if (c.promote == Promotion::kScaled) {
    if (c.tile_n > 192 && c.tile_n % kPromotedScaleBlock != 0) {
      return "block scales: a tile of two instructions straddles blocks of 128 columns";
    }
    if (c.gate == GateMode::kSeparated && c.tile_n != 2 * kPromotedScaleBlock) {
      return "block scales: halves of a separated gate have 128 columns";
    }
  }
  if (dtype_bits(c.dtype) != 16 && (c.a_major == Major::kMn || c.b_major == Major::kMn)) {
    return "wgmma reads types of 8 and 32 bits along K only";
  }
  if (c.a_major == Major::kMn && c.tile_m / c.cluster_n % 64 != 0) return "a slice of A along M is no multiple of 64";
  if (c.b_major == Major::kMn && gemm_sm90_copy_columns(c) % 64 != 0)
    return "a slice of B along N is no multiple of 64";
  if (c.gate == GateMode::kSeparated && c.tile_n % 128 != 0) return "a separated gate wants tile_n = 128 or 256";
  if (c.d_words &&
      (dtype_bits(c.d_dtype) != 16 || c.gate == GateMode::kInterleaved || c.epilogue == EpilogueKind::kFull)) {
    return "d_words: D is no 16-bit type, or the epilogue is interleaved or full";
  }
  return nullptr;
}

// How many of a grid's `clusters` share a problem's tiles, and how.
constexpr GemmSm90Share gemm_sm90_share(const GemmSm90Config& c, int64 m, int64 n, int64 batch, int split,
                                        int clusters) {
  const int64 rows = c.tile_m * c.cluster_m, columns = c.tile_n * c.cluster_n;
  GemmSm90Share share{static_cast<int>((m + rows - 1) / rows), static_cast<int>((n + columns - 1) / columns), 0, 0};
  const int count = share.tiles_m * share.tiles_n * static_cast<int>(batch);
  share.whole = split > 1 ? count / clusters * clusters : count;
  share.rest = count - share.whole;
  return share;
}
// At most `raster` rows of tiles are walked together.
constexpr GemmSm90Walk gemm_sm90_walk(const GemmSm90Config& c, const GemmSm90Share& share, int64 k, int raster,
                                      int split) {
  const int rows = raster < share.tiles_m ? raster : share.tiles_m, last = share.tiles_m % rows;
  const int tile_k = sm90_tile_k(c.dtype);
  const auto made = [](int by) { return denominator(static_cast<unsigned>(by)); };
  return {made(share.tiles_m * share.tiles_n),
          made(rows * share.tiles_n),
          made(rows),
          made(last == 0 ? rows : last),
          made(split),
          static_cast<int>((k + tile_k - 1) / tile_k)};
}
constexpr int64 gemm_sm90_partial_bytes(const GemmSm90Config& c, int rest, int split) {
  const int columns = (c.tile_n + kSm90BoxColumns - 1) / kSm90BoxColumns * kSm90BoxColumns;
  return static_cast<int64>(rest) * split * c.cluster_m * c.cluster_n * c.tile_m * columns * 4;
}

constexpr int gemm_sm90_threads(const GemmSm90Config& c) { return 128 * (c.warpgroups + 1); }

}  // namespace tilewright
