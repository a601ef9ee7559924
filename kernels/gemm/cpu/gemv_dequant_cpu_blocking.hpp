// SPDX-License-Identifier: MIT
// What gemv_dequant_cpu is compiled for, how it shares its work among units and lays out its workspace.
#pragma once

#include "gemm/cpu/gemv_cpu_blocking.hpp"
#include "gemm/gemm_scale_args.hpp"

namespace tilewright {

struct GemvDequantCpuConfig {
  static constexpr const char* kTypeName = "GemvDequantCpuConfig";
  DType dtype;   // of B: i4, u4, e2m1, i8, e4m3, e5m2; A is f16 or bf16
  CpuMma mma;    // fma_avx2, fma_avx512; dot_bf16 for 4-bit B and an A of bf16; dot_i8_vnni for integers and e2m1
  int rows;      // of A, multiplied by what was widened once
  int columns;   // of B side by side
  int prefetch;  // lines of B fetched ahead; 0 = left to the hardware

  bool operator==(const GemvDequantCpuConfig&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
    visit("mma", self.mma);
    visit("rows", self.rows);
    visit("columns", self.columns);
    visit("prefetch", self.prefetch);
  }
};

// Values of K that are multiplied between two looks at scales.
inline constexpr int kDequantBlock = 128;
// Scales of a block: one, or one for each 32 values.
inline constexpr int kDequantGroups = 4;

constexpr bool is_dequantised(DType dtype) {
  return dtype == DType::kI4 || dtype == DType::kU4 || dtype == DType::kF4E2M1 || dtype == DType::kI8 ||
         is_ocp_f8(dtype);
}

// Partial sums of a group for each row: few rows would wait for one chain of additions.
constexpr int dequant_chains(const GemvDequantCpuConfig& c) {
  if (c.mma == CpuMma::kFmaAvx2) return 1;  // of two vectors
  if (c.mma == CpuMma::kDotI8) return 1;    // its floats are the exception
  return c.rows == 1 ? 4 : c.rows == 2 ? 2 : 1;
}

// Null when legal, else the rule that is broken.
constexpr const char* gemv_dequant_cpu_refusal(const GemvDequantCpuConfig& c) {
  if (!is_dequantised(c.dtype)) return "dtype must be i4, u4, e2m1, i8, e4m3 or e5m2";
  const bool dot = c.mma == CpuMma::kDotBf16;
  if (!dot && c.mma != CpuMma::kFmaAvx2 && c.mma != CpuMma::kFmaAvx512 && c.mma != CpuMma::kDotI8) {
    return "mma must be fma, dot_bf16 or dot_i8_vnni";
  }
  if (c.mma == CpuMma::kDotI8 && is_ocp_f8(c.dtype)) return "dot_i8_vnni is for i4, u4, e2m1 and i8";
  if (dot && dtype_bits(c.dtype) != 4) return "dot_bf16 is for 4-bit types";
  if (c.rows < 1 || c.rows > 8) return "rows must be in 1..8";
  if (c.columns != 1 && c.columns != 2 && c.columns != 4) return "columns must be 1, 2 or 4";
  if (c.prefetch < 0 || c.prefetch > 64) return "prefetch must be in 0..64";
  // Sums of all columns, those of a group, and what is being widened.
  const int vectors = (c.rows * (c.columns + dequant_chains(c)) + 3) * (c.mma == CpuMma::kFmaAvx2 ? 2 : 1);
  return vectors <= (c.mma == CpuMma::kFmaAvx2 ? 16 : 30) ? nullptr : "rows x columns does not fit the registers";
}

// Bytes that a block of a row of A takes: its values as the multiplication wants them, and their sums lane by lane.
constexpr int64 dequant_block_bytes(const GemvDequantCpuConfig& c) {
  return kDequantBlock * (c.mma == CpuMma::kDotBf16 ? 2 : 4) + 64;
}
// The same of a block as digits (gemv_dequant_digits_cpu.hpp), which stands beside the floats.
inline constexpr int64 kDigitBlockBytes = 12 * 64;
constexpr int64 dequant_blocks(int64 k) { return blocking::ceil_div(k, kDequantBlock); }

struct GemvDequantCpuBlocking {
  GemvCpuBlocking grid;
  int64 row_bytes;     // of A
  int64 digit_bytes;   // of a row of A as digits; 0 = none
  int64 group_floats;  // a column's scales; as many zero points lie behind those of all columns
  int64 digits_offset, groups_offset, unit_bytes;
};

constexpr GemvDequantCpuBlocking gemv_dequant_cpu_blocking(const GemvDequantCpuConfig& c, const GemmCpuSizes& s,
                                                           int64 units) {
  using namespace blocking;
  GemvDequantCpuBlocking b{};
  b.grid = gemv_cpu_blocking({DType::kF32, c.mma, false, c.rows, c.columns, 0}, s, units);
  b.row_bytes = dequant_blocks(s.k) * dequant_block_bytes(c);
  b.grid.a_group_bytes = b.row_bytes * c.rows;
  b.group_floats = dequant_blocks(s.k) * kDequantGroups + 32;
  b.digit_bytes = c.mma == CpuMma::kDotI8 ? dequant_blocks(s.k) * kDigitBlockBytes : 0;
  b.digits_offset = b.grid.a_offset + b.grid.row_groups * b.grid.a_group_bytes;
  b.groups_offset = b.digits_offset + b.grid.row_groups * c.rows * b.digit_bytes;
  b.unit_bytes = round_up(b.groups_offset + 2 * c.columns * b.group_floats * 4, 4096) + 64;
  return b;
}

constexpr int64 gemv_dequant_cpu_workspace_bytes(const GemvDequantCpuConfig& config, const GemmCpuSizes& sizes,
                                                 int64 units) {
  if (sizes.m <= 0 || sizes.n <= 0 || sizes.batch <= 0) return 0;
  const GemvDequantCpuBlocking b = gemv_dequant_cpu_blocking(config, sizes, units);
  return b.unit_bytes * b.grid.units_batch * b.grid.units_n;
}

}  // namespace tilewright
