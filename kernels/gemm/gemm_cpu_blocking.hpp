// SPDX-License-Identifier: MIT
// How gemm_cpu shares its work among units, cuts it into blocks, and lays out its workspace. Host (cost model,
// workspace size) and kernel compute it from the same sizes and knobs, so they agree. Freestanding.
#pragma once

#include "gemm/gemm_args.hpp"

namespace tilewright {

// ---- What a config means ----------------------------------------------------------------------------------------------

constexpr bool is_amx(CpuMma mma) { return mma == CpuMma::kAmxBf16 || mma == CpuMma::kAmxI8; }
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

// int32 sums of int8 products are exact up to here; longer sums belong to gemm_generic.
inline constexpr int64 kMaxExactI8K = 131071;

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
    if (c.tile_m % 16 != 0) return "tile_m must be a multiple of 16 for amx";
    // Accumulators, the tiles of A, one tile of B.
    const int rows = c.tile_m / 16;
    return rows * panels + rows + 1 <= 8 ? nullptr
                                         : "amx has 8 tiles: (tile_m/16)(tile_n/16 + 1) + 1 must not exceed 8";
  }
  // Accumulators, one line of B, one broadcast of A (and one product where multiplying and adding are two steps).
  const bool avx2 = c.mma == CpuMma::kFmaAvx2 || c.mma == CpuMma::kDotI8Avx2;
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

// What every unit does. Columns are columns of D ("out"): one is one column of B, or a gate and an up column.
struct GemmCpuBlocking {
  int64 out_n;                          // columns of D
  int64 units_batch, units_m, units_n;  // grid of units; units past their product have nothing to do
  int64 m_tiles, n_tiles;               // of tile_m rows and tile_n columns of D, shared among units_m, units_n
  int64 block_m;                        // rows of a block, a multiple of tile_m
  int64 block_out;                      // columns of D of a block, a multiple of tile_n
  int64 block_k;                        // k of a block, a multiple of 64
  int64 blocks_m, blocks_n, blocks_k;   // most blocks that a unit has
  bool a_resident;                      // all of a unit's packed A stays in the workspace
  bool b_resident;                      // plain B: a column block's packed panels stay, for every block of rows
  int64 segments;                       // column ranges of B in a block: 2 with a separated gate
  int64 segment_columns;                // columns of B that one segment's accumulators take, a multiple of tile_n
  int64 segment_panels;                 // panels of B that one segment packs at most
  // The workspace of a unit, in bytes: [accumulators][packed A][packed B][widened B]
  int64 acc_stride;                    // of a row of accumulators, in elements
  int64 a_block_bytes, b_block_bytes;  // one block
  int64 a_offset, b_offset, wide_offset, unit_bytes;
};

// Packed operands up to this size stay in the workspace over a unit's whole run.
inline constexpr int64 kResidentBytes = 64ll << 20;

constexpr GemmCpuBlocking gemm_cpu_blocking(const GemmCpuConfig& c, const GemmCpuSizes& s, int64 units) {
  using namespace blocking;
  GemmCpuBlocking b{};
  const bool gated = s.gate != GateMode::kNone;
  b.out_n = gated ? s.n / 2 : s.n;
  b.segments = s.gate == GateMode::kSeparated ? 2 : 1;
  const int64 b_columns = s.gate == GateMode::kInterleaved ? 2 : 1;  // of B in a segment, for a column of D
  b.m_tiles = larger(1, ceil_div(s.m, c.tile_m));
  b.n_tiles = larger(1, ceil_div(b.out_n, c.tile_n));

  // Units: the grid with the least work for the busiest unit; a unit's reading counts a little, B (once a row of units)
  // more than A. Only powers of two over m keep the search short.
  double best = -1;
  for (int64 ub = smaller(larger(1, s.batch), larger(1, units));; ub = ub / 2) {
    if (ub < 1) break;
    for (int64 um = 1; um * ub <= larger(1, units) && um <= b.m_tiles; um *= 2) {
      const int64 un = smaller(larger(1, units) / (ub * um), b.n_tiles);
      const double batches = static_cast<double>(ceil_div(larger(1, s.batch), ub));
      const double rows = static_cast<double>(ceil_div(b.m_tiles, um) * c.tile_m);
      const double columns = static_cast<double>(ceil_div(b.n_tiles, un) * c.tile_n);
      const double cost = batches * (rows * columns + 8 * rows + 16 * columns);
      if (best < 0 || cost < best) {
        best = cost;
        b.units_batch = ub, b.units_m = um, b.units_n = un;
      }
    }
    if (ub == 1) break;
  }

  // Blocks: equal parts of a unit's share, so that the last one is not a sliver.
  const int64 unit_m = ceil_div(b.m_tiles, b.units_m) * c.tile_m;
  const int64 unit_out = ceil_div(b.n_tiles, b.units_n) * c.tile_n;
  const int64 kp = packed_kp(c.dtype), line = packed_line_bytes(c.dtype);
  const int64 default_k = is_amx(c.mma) ? 1024 : 256 * unit_k(c.mma);
  const int64 want_m = s.block_m > 0 ? s.block_m : (is_amx(c.mma) ? 512 : 480);
  const int64 want_out = larger(1, (s.block_n > 0 ? s.block_n : 512) / (b.segments * b_columns));
  const int64 want_k = s.block_k > 0 ? s.block_k : default_k;
  b.blocks_m = ceil_div(unit_m, smaller(round_up(want_m, c.tile_m), unit_m));
  b.block_m = round_up(ceil_div(unit_m, b.blocks_m), c.tile_m);
  b.blocks_n = ceil_div(unit_out, smaller(round_up(want_out, c.tile_n), unit_out));
  b.block_out = round_up(ceil_div(unit_out, b.blocks_n), c.tile_n);
  const int64 k64 = larger(64, round_up(s.k, 64));
  b.blocks_k = ceil_div(k64, smaller(round_up(want_k, 64), k64));
  b.block_k = round_up(ceil_div(k64, b.blocks_k), 64);
  b.blocks_m = ceil_div(unit_m, b.block_m);
  b.blocks_n = ceil_div(unit_out, b.block_out);
  b.blocks_k = ceil_div(k64, b.block_k);

  // A segment of B: block_out columns, doubled when gate and up interleave; the up half of a separated gate may begin
  // inside a panel.
  b.segment_panels = b.block_out * b_columns / 16 + (b.segments == 2 ? 1 : 0);
  b.segment_columns = round_up(b.segment_panels * 16, c.tile_n);
  // An odd number of cache lines a row, so that rows do not fall into the same cache sets; one vector may read past.
  b.acc_stride = b.segments * b.segment_columns + 16;
  if (b.acc_stride / 16 % 2 == 0) b.acc_stride += 16;

  const int64 a_units = b.block_k / unit_k(c.mma);
  b.a_block_bytes = round_up(b.block_m * a_units * 4 + 64, 64);
  b.b_block_bytes = s.b_packed ? 0 : round_up(b.segments * b.segment_panels * (b.block_k / kp * line + 64), 64);
  b.a_resident = b.blocks_n > 1 && b.blocks_m * b.blocks_k * b.a_block_bytes <= kResidentBytes;
  b.b_resident = b.blocks_m > 1 && b.blocks_k * b.b_block_bytes <= kResidentBytes;
  const int64 wide = widens_b(c.dtype, c.mma) ? a_units * c.tile_n * 4 : 0;

  b.a_offset = round_up(b.block_m * b.acc_stride * 4 + 64, 64);
  b.b_offset = b.a_offset + b.a_block_bytes * (b.a_resident ? b.blocks_m * b.blocks_k : 1);
  b.wide_offset = b.b_offset + b.b_block_bytes * (b.b_resident ? b.blocks_k : 1);
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
