// SPDX-License-Identifier: MIT
// What gemv_dequant_packed_cpu is compiled for, how it shares its work among units and lays out its workspace.
#pragma once

#include "gemm/cpu/gemv_dequant_cpu_blocking.hpp"
#include "gemm/gemm_packed_layout.hpp"

namespace tilewright {

struct GemvDequantPackedCpuConfig {
  static constexpr const char* kTypeName = "GemvDequantPackedCpuConfig";
  DType dtype;   // of B: i4, u4, e2m1, i8; A is f16 or bf16
  CpuMma mma;    // fma_avx2, fma_avx512, dot_i8_vnni
  int rows;      // of A, multiplied by what was widened once
  int panels;    // of B side by side
  int prefetch;  // blocks of B fetched ahead; 0 = left to the hardware

  bool operator==(const GemvDequantPackedCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("mma", self.mma);
    visit("rows", self.rows);
    visit("panels", self.panels);
    visit("prefetch", self.prefetch);
  }
};

// Null when legal, else the rule that is broken.
constexpr const char* gemv_dequant_packed_cpu_refusal(const GemvDequantPackedCpuConfig& c) {
  if (c.dtype != DType::kI4 && c.dtype != DType::kU4 && c.dtype != DType::kF4E2M1 && c.dtype != DType::kI8) {
    return "dtype must be i4, u4, e2m1 or i8";
  }
  if (c.mma != CpuMma::kFmaAvx2 && c.mma != CpuMma::kFmaAvx512 && c.mma != CpuMma::kDotI8) {
    return "mma must be fma_avx2, fma_avx512 or dot_i8_vnni";
  }
  if (c.rows < 1 || c.rows > 8) return "rows must be in 1..8";
  if (c.panels != 1 && c.panels != 2) return "panels must be 1 or 2";
  if (c.prefetch < 0 || c.prefetch > 8) return "prefetch must be in 0..8";
  // Sums of each row and panel, three of digits beside the total, and what is being widened.
  const int sums = c.mma == CpuMma::kDotI8 ? 4 : 2;
  const int vectors = (c.rows * c.panels * sums + 2 * c.panels + 3) * (c.mma == CpuMma::kFmaAvx2 ? 2 : 1);
  return vectors <= (c.mma == CpuMma::kFmaAvx2 ? 16 : 32) ? nullptr : "rows x panels does not fit the registers";
}

// Rows of A that are arranged together; more go through in turns.
inline constexpr int64 kDequantPackedRows = 16;
// Blocks of K whose scales are widened at once, and blocks of A that stay in the first level between panels.
inline constexpr int64 kDequantPackedChunk = 32;
inline constexpr int64 kDequantPackedPiece = 64;
// A block of a row of A as floats: its values, and the sums of its groups and of all of it.
inline constexpr int64 kDequantPackedFloats = kDequantBlock * 4 + 64;
// The same as digits (gemv_dequant_packed_digits_cpu.hpp).
inline constexpr int64 kDequantPackedDigits = 8 * 64;

struct GemvDequantPackedCpuBlocking {
  GemvCpuBlocking grid;
  int64 blocks;       // of K
  int64 row_bytes;    // of A as floats
  int64 digit_bytes;  // of a row of A as digits; 0 = none
  int64 digits_offset, groups_offset, unit_bytes;
};

constexpr GemvDequantPackedCpuBlocking gemv_dequant_packed_cpu_blocking(const GemvDequantPackedCpuConfig& c,
                                                                        GemmCpuSizes s, int64 units) {
  using namespace blocking;
  GemvDequantPackedCpuBlocking b{};
  s.m = smaller(s.m, kDequantPackedRows);
  b.grid = gemv_cpu_blocking({DType::kF32, c.mma, true, c.rows, c.panels, 0}, s, units);
  b.blocks = dequant_blocks(s.k);
  b.row_bytes = b.blocks * kDequantPackedFloats;
  b.digit_bytes = c.mma == CpuMma::kDotI8 ? b.blocks * kDequantPackedDigits : 0;
  const int64 rows = b.grid.row_groups * c.rows;
  b.digits_offset = b.grid.a_offset + rows * b.row_bytes;
  b.groups_offset = b.digits_offset + rows * b.digit_bytes;
  // Scales and zero points of a chunk.
  const int64 groups = 2 * c.panels * kDequantPackedChunk * kDequantGroups * kPanelColumns * 4;
  b.unit_bytes = round_up(b.groups_offset + groups, 4096) + 64;
  return b;
}

constexpr int64 gemv_dequant_packed_cpu_workspace_bytes(const GemvDequantPackedCpuConfig& config,
                                                        const GemmCpuSizes& sizes, int64 units) {
  if (sizes.m <= 0 || sizes.n <= 0 || sizes.batch <= 0) return 0;
  const GemvDequantPackedCpuBlocking b = gemv_dequant_packed_cpu_blocking(config, sizes, units);
  return b.unit_bytes * b.grid.units_batch * b.grid.units_n;
}

}  // namespace tilewright
