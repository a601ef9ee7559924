// SPDX-License-Identifier: MIT
// How gemv_cpu shares its work among units and lays out its workspace; the counterpart of gemm_cpu_blocking.hpp.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"

namespace tilewright {

// Null when legal, else the rule that is broken. Plain weights must have k contiguous (stride_b_k = 1).
constexpr const char* gemv_cpu_refusal(const GemvCpuConfig& c) {
  if (const char* refusal = cpu_mma_dtype_refusal(c.dtype, c.mma)) return refusal;
  if (is_amx(c.mma)) return "gemv has no amx form: use gemm_cpu with tile_m = 16";
  if (c.rows < 1 || c.rows > 16) return "rows must be in 1..16";
  if (c.panels < 1 || c.panels > 8) return "panels must be in 1..8";
  if (c.prefetch < 0 || c.prefetch > 64) return "prefetch must be in 0..64";
  if (!c.packed && 16 % c.panels != 0) return "panels must divide 16 for plain weights";
  // Accumulators, one vector of B (two where widening doubles it), one of A, a product where adding is a step of its own.
  const bool avx2 = is_avx2(c.mma);
  const int b_vectors = c.packed ? packed_kp(c.dtype) / unit_k(c.mma) : c.mma == CpuMma::kDotI8 ? 1 + c.panels : 1;
  const int vectors = (c.rows * c.panels + b_vectors + (c.mma == CpuMma::kDotI8Avx2 ? 1 : 0)) * (avx2 ? 2 : 1) + 1;
  return vectors <= (avx2 ? 16 : 32) ? nullptr : "rows x panels does not fit the vector registers";
}

struct GemvCpuBlocking {
  int64 out_n;                 // columns of D
  int64 units_batch, units_n;  // grid of units
  int64 tile, n_tiles;         // columns of D that are shared among units together
  int64 block_out;             // columns of D between two epilogues
  int64 row_groups;            // of config.rows rows of A
  int64 segment_columns;       // columns of B that one segment's accumulators take
  int64 acc_stride;            // elements
  int64 a_group_bytes;         // one group of rows, as units
  int64 a_offset, unit_bytes;
};

constexpr GemvCpuBlocking gemv_cpu_blocking(const GemvCpuConfig& c, const GemmCpuSizes& s, int64 units) {
  using namespace blocking;
  GemvCpuBlocking b{};
  b.out_n = s.gate == GateMode::kNone ? s.n : s.n / 2;
  const int64 segments = s.gate == GateMode::kSeparated ? 2 : 1;
  const int64 b_columns = s.gate == GateMode::kInterleaved ? 2 : 1;
  b.tile = c.packed ? 16 * c.panels : 16;
  b.n_tiles = larger(1, ceil_div(b.out_n, b.tile));
  // The grid with the least columns for the busiest unit.
  int64 best = -1;
  for (int64 ub = 1; ub <= larger(1, smaller(s.batch, units)); ++ub) {
    const int64 un = smaller(larger(1, units / ub), b.n_tiles);
    const int64 cost = ceil_div(larger(1, s.batch), ub) * ceil_div(b.n_tiles, un);
    if (best < 0 || cost < best) best = cost, b.units_batch = ub, b.units_n = un;
  }
  const int64 want = larger(1, (s.block_n > 0 ? s.block_n : 512) / (segments * b_columns));
  b.block_out = smaller(round_up(want, b.tile), ceil_div(b.n_tiles, b.units_n) * b.tile);
  b.row_groups = larger(1, ceil_div(s.m, c.rows));
  b.segment_columns = round_up(b.block_out * b_columns + (segments == 2 ? 16 : 0), 16 * c.panels);
  b.acc_stride = segments * b.segment_columns + 16;
  // Packed: whole lines. Plain: whole vectors of units.
  const int64 group = larger(packed_kp(c.dtype), c.packed ? 1 : 16 * unit_k(c.mma));
  b.a_group_bytes = round_up(round_up(s.k, group) / unit_k(c.mma) * c.rows * 4 + 64, 64);
  b.a_offset = round_up(b.row_groups * c.rows * b.acc_stride * 4 + 64, 64);
  b.unit_bytes = round_up(b.a_offset + b.row_groups * b.a_group_bytes, 4096) + 64;
  return b;
}

constexpr int64 gemv_cpu_workspace_bytes(const GemvCpuConfig& config, const GemmCpuSizes& sizes, int64 units) {
  if (sizes.m <= 0 || sizes.n <= 0 || sizes.batch <= 0) return 0;
  const GemvCpuBlocking b = gemv_cpu_blocking(config, sizes, units);
  return b.unit_bytes * b.units_batch * b.units_n;
}

}  // namespace tilewright
