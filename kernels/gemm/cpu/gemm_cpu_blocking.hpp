// SPDX-License-Identifier: MIT
// How gemm_cpu shares its work among units, cuts it into blocks, and lays out its workspace. Host (cost model,
// workspace size) and kernel compute it from the same sizes and knobs, so they agree. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

// ---- What a config means ----------------------------------------------------------------------------------------------

constexpr bool is_amx(CpuMma mma) { return mma == CpuMma::kAmxBf16 || mma == CpuMma::kAmxI8; }
constexpr bool is_avx2(CpuMma mma) { return mma == CpuMma::kFmaAvx2 || mma == CpuMma::kDotI8Avx2; }
constexpr bool is_integer(CpuMma mma) {
  return mma == CpuMma::kDotI8Avx2 || mma == CpuMma::kDotI8 || mma == CpuMma::kAmxI8;
}
// Consecutive k that one 32-bit unit of A holds; a line of B then holds 16 columns of such units.
constexpr int unit_k(CpuMma mma) {
  switch (mma) {
    case CpuMma::kFmaAvx2:
    case CpuMma::kFmaAvx512: return 1;
    case CpuMma::kDotBf16:
    case CpuMma::kDotI8Avx2:
    case CpuMma::kAmxBf16: return 2;
    case CpuMma::kDotI8:
    case CpuMma::kAmxI8: return 4;
  }
  return 1;
}
// The micro-kernel does not multiply the stored type: tile_n columns of B are widened beforehand, once a block.
constexpr bool widens_b(DType dtype, CpuMma mma) {
  return mma == CpuMma::kDotI8Avx2 || (unit_k(mma) == 1 && dtype != DType::kF32);
}
// dot_i8_vnni multiplies A + 128; the column sums of B take the offset back.
constexpr bool needs_column_sums(CpuMma mma) { return mma == CpuMma::kDotI8; }

// Null when this mma multiplies this dtype, else the rule that is broken.
constexpr const char* cpu_mma_dtype_refusal(DType dtype, CpuMma mma) {
  if (is_integer(mma)) return dtype == DType::kI8 ? nullptr : "this mma multiplies i8 only";
  if (mma == CpuMma::kDotBf16 || mma == CpuMma::kAmxBf16) {
    return dtype == DType::kBf16 ? nullptr : "this mma multiplies bf16 only";
  }
  const bool known = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
  return known ? nullptr : "fma multiplies f32, f16 and bf16 only";
}

// Null when legal, else the rule that is broken.
constexpr const char* gemm_cpu_refusal(const GemmCpuConfig& c) {
  if (const char* refusal = cpu_mma_dtype_refusal(c.dtype, c.mma)) return refusal;
  if (c.tile_m < 1) return "tile_m must be at least 1";
  if (c.tile_n < 16 || c.tile_n % 16 != 0) return "tile_n must be a positive multiple of 16";
  if (c.prefetch < 0 || c.prefetch > 64) return "prefetch must be in 0..64";
  const int panels = c.tile_n / 16;
  if (is_amx(c.mma)) {
    if (c.prefetch != 0) return "amx fetches the next columns by itself: prefetch must be 0";
    if (c.tile_m % 16 != 0) return "tile_m must be a multiple of 16 for amx";
    // Accumulators, the tiles of A, one tile of B.
    const int rows = c.tile_m / 16;
    return rows * panels + rows + 1 <= 8 ? nullptr
                                         : "amx has 8 tiles: (tile_m/16)(tile_n/16 + 1) + 1 must not exceed 8";
  }
  // Accumulators, one line of B, one broadcast of A (and one product where multiplying and adding are two steps).
  const bool avx2 = is_avx2(c.mma);
  const int registers = avx2 ? 16 : 32, columns = avx2 ? 2 * panels : panels;
  const int rest = columns + 1 + (c.mma == CpuMma::kDotI8Avx2 ? 1 : 0);
  return c.tile_m * columns + rest <= registers ? nullptr : "the register tile does not fit the vector registers";
}

// ---- Sizes and knobs --------------------------------------------------------------------------------------------------

struct GemmCpuSizes {
  int64 m, n, k, batch;
  GateMode gate;
  bool b_packed;
  int64 block_m, block_n, block_k;  // knobs; 0 = chosen here. Any positive value is legal: it is rounded and clamped
  int64 grain_k = 64;               // blocks of k are multiples of it
  int64 group_k = 0;                // K whose sums take scales of their own (32, 64 or 128); 0 = none do
};

constexpr GemmCpuSizes gemm_cpu_sizes(const GemmArgs& args) {
  return {args.m,        args.n,       args.k,       args.batch,  args.epilogue.gate,
          args.b_packed, args.block_m, args.block_n, args.block_k};
}

namespace blocking {
constexpr int64 ceil_div(int64 a, int64 b) { return (a + b - 1) / b; }
constexpr int64 round_up(int64 a, int64 b) { return ceil_div(a, b) * b; }
constexpr int64 smaller(int64 a, int64 b) { return a < b ? a : b; }
constexpr int64 larger(int64 a, int64 b) { return a > b ? a : b; }
// A unit's share of `tiles` tiles when `parts` units share them: [share_begin(i), share_begin(i + 1)).
constexpr int64 share_begin(int64 tiles, int64 parts, int64 index) {
  return tiles / parts * index + smaller(index, tiles % parts);
}
}  // namespace blocking

// Where the packed panels of plain B are kept.
enum class PackedB : unsigned char {
  kInPlace,  // B comes packed
  kTile,     // one tile of columns, packed right before its use (again for every block of rows, if there are several)
  kColumns,  // a block of columns, over all of k: blocks of columns are the outer loop
  kAll,      // all columns of the unit, over all of k: blocks of rows are the outer loop
};

// Where packed A is kept.
enum class PackedA : unsigned char {
  kBlock,  // one block, packed at each use
  kRows,   // a block of rows, over all of k
  kAll,    // all rows of the unit
};

// What every unit does. Columns are columns of D ("out"): one is one column of B, or a gate and an up column.
struct GemmCpuBlocking {
  int64 out_n;                          // columns of D
  int64 units_batch, units_m, units_n;  // grid of units; units past their product have nothing to do
  int64 row_grain;                     // units_m share the rows of D in grains of as many, units_n its columns in tiles
  int64 m_grains, n_tiles;             // of row_grain rows and out_tile columns
  int64 out_tile;                      // columns of D behind tile_n columns of a segment
  int64 segments;                      // column ranges of B behind columns of D: 2 with a separated gate
  bool both_halves;                    // a tile takes half of its panels from each half of a separated gate
  int64 tile_segments;                 // micro-kernels behind a tile of D: 1, or one for each segment
  bool aligned;                        // every segment begins with a panel: the epilogue can follow each tile
  int64 block_m;                       // rows of a block, a multiple of tile_m
  int64 block_out;                     // columns of D of a block, a multiple of out_tile
  int64 block_k;                       // k of a block, a multiple of 64
  int64 blocks_m, blocks_n, blocks_k;  // most blocks that a unit has
  bool rows_outer;                     // loop order: blocks of rows around blocks of columns, or the reverse
  PackedA packed_a;
  PackedB packed_b;
  int64 segment_panels;   // panels of B of one segment of a block, at most
  int64 segment_columns;  // columns of B that one segment's accumulators take, a multiple of tile_n
  int64 group_k, groups;  // of K whose sums take scales of their own, and how many a block of k has; 0: there are none
  // The workspace of a unit, in bytes: [sums of tiles][of groups][accumulators][packed A][packed B][widened B]. Behind a block
  // of A are its rows' scales [panel][group][row], behind a panel of B the column sums, one set or [group][column], and scales
  // [group][column].
  int64 acc_stride, scratch_stride;        // of a row, in elements
  int64 a_block_bytes, b_block_bytes;      // one block (PackedB::kTile: one tile)
  int64 a_scales_bytes, panel_tail_bytes;  // what lies in front of a block's scales; behind a panel's lines
  int64 group_sums_offset, acc_offset, a_offset, b_offset, wide_offset, unit_bytes;
};

// Packed operands up to this size stay in the workspace over a unit's whole run.
inline constexpr int64 kResidentBytes = 64ll << 20;
// What a block of A may take of the second level of cache; AMX has no accumulators there.
constexpr int64 block_bytes_a(CpuMma mma) { return is_amx(mma) ? 1024ll << 10 : 432ll << 10; }

namespace blocking {

// What a row of A and a column of B cost a unit besides multiplying, in columns and rows of multiplying: A is packed, B
// read or packed too, and AMX multiplies so fast that this weighs more.
constexpr double row_weight(const GemmCpuConfig& c) { return is_amx(c.mma) ? 200 : 45; }
constexpr double column_weight(const GemmCpuConfig& c, bool packed) {
  return is_amx(c.mma) ? (packed ? 150 : 400) : (packed ? 20 : 50);
}

// A last panel of fewer rows than tile_m takes as long as this many more: its products wait for each other.
inline constexpr int64 kFewRows = 2;

// Units of k of a block. Both operands stream from the second level of cache and sums pass through memory once a block, so blocks
// are long; shorter where widened columns of B take room in that level too. AMX asks for the longest, because storing a tile
// stalls the multiplier.
// Panels are K apart: where that is a power of two, the same stretch of every panel falls into the same sets of the second
// level, and two segments fill twice as many ways.
constexpr int64 block_units_k(const GemmCpuConfig& c, int64 tile_segments) {
  if (is_amx(c.mma)) return 1280 / tile_segments;
  return is_avx2(c.mma) || widens_b(c.dtype, c.mma) ? 512 : 1024 / tile_segments;
}

// The grid of units with the least work for the busiest one.
constexpr void share_units(const GemmCpuConfig& c, const GemmCpuSizes& s, int64 units, GemmCpuBlocking& b) {
  double best = -1;
  units = larger(1, units);
  const int64 m_tiles = larger(1, ceil_div(s.m, c.tile_m));
  for (int64 ub = smaller(larger(1, s.batch), units); ub >= 1; ub /= 2) {
    for (int64 um = 1; um * ub <= units && um <= m_tiles; um = um < 4 ? um + 1 : um * 2) {
      const int64 un = smaller(units / (ub * um), b.n_tiles);
      const double batches = static_cast<double>(ceil_div(larger(1, s.batch), ub));
      const int64 share = ceil_div(b.m_grains, um) * b.row_grain;
      const double rows = static_cast<double>(share + (share % c.tile_m == 0 ? 0 : kFewRows));
      const double columns = static_cast<double>(ceil_div(b.n_tiles, un) * c.tile_n);
      const double cost = batches * (rows * columns + row_weight(c) * rows + column_weight(c, s.b_packed) * columns);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      b.units_batch = ub, b.units_m = um, b.units_n = un;
    }
  }
}

// Equal parts of `size`, each a multiple of `grain` and about `want`.
constexpr void cut(int64 size, int64 want, int64 grain, int64& block, int64& blocks) {
  const int64 whole = larger(grain, round_up(size, grain));
  blocks = ceil_div(whole, smaller(larger(grain, want / grain * grain), whole));
  block = round_up(ceil_div(whole, blocks), grain);
  blocks = ceil_div(whole, block);
}

}  // namespace blocking

constexpr GemmCpuBlocking gemm_cpu_blocking(const GemmCpuConfig& c, const GemmCpuSizes& s, int64 units) {
  using namespace blocking;
  GemmCpuBlocking b{};
  b.out_n = s.gate == GateMode::kNone ? s.n : s.n / 2;
  b.segments = s.gate == GateMode::kSeparated ? 2 : 1;
  const int64 pairs = s.gate == GateMode::kInterleaved ? 2 : 1;  // columns of B in a segment for a column of D
  b.aligned = b.segments == 1 || b.out_n % kPanelColumns == 0;
  b.both_halves = b.segments == 2 && b.aligned && !is_amx(c.mma) && c.tile_n % (2 * kPanelColumns) == 0;
  b.tile_segments = b.both_halves ? 1 : b.segments;
  b.out_tile = c.tile_n / (b.both_halves ? 2 : pairs);
  b.row_grain = is_amx(c.mma) || c.tile_m % 2 != 0 ? c.tile_m : 2;
  b.m_grains = larger(1, ceil_div(s.m, b.row_grain));
  b.n_tiles = larger(1, ceil_div(b.out_n, b.out_tile));
  share_units(c, s, units, b);

  const int64 unit = unit_k(c.mma), kp = packed_kp(c.dtype), line = packed_line_bytes(c.dtype);
  const int64 want_k = s.block_k > 0 ? s.block_k : block_units_k(c, b.tile_segments) * unit;
  cut(s.k, want_k, s.grain_k, b.block_k, b.blocks_k);
  b.group_k = s.group_k;
  b.groups = s.group_k > 0 ? b.block_k / s.group_k : 0;
  // m: a block of A fits the second level.
  const int64 unit_m = ceil_div(b.m_grains, b.units_m) * b.row_grain,
              unit_out = ceil_div(b.n_tiles, b.units_n) * b.out_tile;
  const int64 row_bytes = b.block_k / unit * 4;
  const int64 want_m =
      s.block_m > 0 ? s.block_m : larger(2 * c.tile_m, smaller(1024, block_bytes_a(c.mma) / row_bytes));
  cut(unit_m, want_m, c.tile_m, b.block_m, b.blocks_m);
  // n: what accumulates over blocks of k stays in the second level; without that there is no reason to cut n.
  const bool one_pass = b.blocks_k == 1 && b.aligned && (s.b_packed || b.blocks_m == 1);
  const int64 want_n = s.block_n > 0 ? s.block_n : one_pass ? unit_out * b.segments * pairs : is_amx(c.mma) ? 512 : 256;
  const int64 want_out = larger(1, want_n / (b.segments * pairs));
  cut(unit_out, want_out, b.out_tile, b.block_out, b.blocks_n);

  // A segment's panels: block_out columns of D; the up half of a separated gate may begin inside a panel.
  b.segment_panels = b.block_out * pairs / kPanelColumns + (b.aligned ? 0 : 1);
  b.segment_columns = round_up(b.segment_panels * kPanelColumns, c.tile_n);
  b.panel_tail_bytes = larger(1, 2 * b.groups) * kPanelColumns * 4;
  const int64 panel_bytes = b.block_k / kp * line + b.panel_tail_bytes;
  const int64 tile_bytes = round_up(b.tile_segments * (c.tile_n / kPanelColumns) * panel_bytes, 64);
  const int64 block_bytes = round_up(b.segments * b.segment_panels * panel_bytes, 64);
  b.a_scales_bytes = round_up(b.block_m * row_bytes + 64, 64);
  b.a_block_bytes = round_up(b.a_scales_bytes + (b.groups > 0 ? b.groups * b.block_m * 4 + 64 : 0), 64);
  const int64 all_a = b.blocks_m * b.blocks_k * b.a_block_bytes, all_b = b.blocks_n * b.blocks_k * block_bytes;
  b.packed_b = s.b_packed                                   ? PackedB::kInPlace
               : b.blocks_m == 1                            ? PackedB::kTile
               : all_b <= kResidentBytes                    ? PackedB::kAll
               : b.blocks_k * block_bytes <= kResidentBytes ? PackedB::kColumns
                                                            : PackedB::kTile;
  b.rows_outer = b.packed_b != PackedB::kColumns;
  b.packed_a = !b.rows_outer && all_a <= kResidentBytes                         ? PackedA::kAll
               : b.rows_outer && b.blocks_k * b.a_block_bytes <= kResidentBytes ? PackedA::kRows
                                                                                : PackedA::kBlock;
  b.b_block_bytes = b.packed_b == PackedB::kTile ? tile_bytes : block_bytes;

  // Rows an odd number of cache lines apart do not fall into the same cache sets.
  b.scratch_stride = b.tile_segments * c.tile_n;
  b.acc_stride = b.segments * b.segment_columns + 16;
  if (b.acc_stride / 16 % 2 == 0) b.acc_stride += 16;
  const bool accumulates = b.blocks_k > 1 || !b.aligned;
  // AMX: two tiles, of which one waits for its epilogue, as many of a group's sums, and 1 KiB to scribble on.
  b.group_sums_offset = round_up((is_amx(c.mma) ? 2 : 1) * c.tile_m * b.scratch_stride * 4 + 128, 64);
  b.acc_offset = b.group_sums_offset + (is_amx(c.mma) && b.groups > 0 ? 2 * c.tile_m * c.tile_n * 4 : 0) + 1024;
  b.a_offset = round_up(b.acc_offset + (accumulates ? b.block_m * b.acc_stride * 4 + 128 : 0), 4096);
  const int64 a_blocks = b.packed_a == PackedA::kBlock  ? 1
                         : b.packed_a == PackedA::kRows ? b.blocks_k
                                                        : b.blocks_m * b.blocks_k;
  b.b_offset = b.a_offset + b.a_block_bytes * a_blocks;
  const int64 b_blocks = b.packed_b == PackedB::kInPlace   ? 0
                         : b.packed_b == PackedB::kTile    ? 1
                         : b.packed_b == PackedB::kColumns ? b.blocks_k
                                                           : b.blocks_n * b.blocks_k;
  b.wide_offset = b.b_offset + b.b_block_bytes * b_blocks;
  const int64 wide = widens_b(c.dtype, c.mma) ? b.tile_segments * b.block_k / unit * c.tile_n * 4 : 0;
  b.unit_bytes = round_up(b.wide_offset + wide, 4096) + 64;  // neighbours' buffers at different cache sets
  return b;
}

// Bytes of args.workspace, 64-byte aligned, for all units.
constexpr int64 gemm_cpu_workspace_bytes(const GemmCpuConfig& config, const GemmCpuSizes& sizes, int64 units) {
  if (sizes.m <= 0 || sizes.n <= 0 || sizes.batch <= 0) return 0;
  const GemmCpuBlocking b = gemm_cpu_blocking(config, sizes, units);
  return b.unit_bytes * b.units_batch * b.units_m * b.units_n;
}

}  // namespace tilewright
