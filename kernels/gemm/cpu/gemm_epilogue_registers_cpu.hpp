// SPDX-License-Identifier: MIT
// The epilogue of a whole register tile: what most large products ask for, a scale a row and a scale and a bias a column,
// goes from the micro-kernel's sums straight to D. Everything else goes through memory (gemm_epilogue_cpu.hpp), with the same
// bits.
#pragma once

#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/cpu/gemm_epilogue_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Instructions that multiply fast beside the epilogue. For the others it is code that takes time to compile.
template <CpuMma kMma>
inline constexpr bool kStoresRegisters = kMma == CpuMma::kDotBf16 || kMma == CpuMma::kDotI8;

// Whether sums may go to D from the registers that they are made in: nothing but scales of rows and columns and a bias
// follows. Sums that are floats go to one type of D.
template <DType kType, CpuMma kMma>
inline bool stores_registers(const GemmEpilogueArgs& e) {
  return kStoresRegisters<kMma> && is_only_linear(e) && e.alpha == 1.0f && (is_integer(kMma) || e.d_dtype == kType);
}

TILEWRIGHT_INLINE F32x16 float_sum(F32x16 sum) { return sum; }
TILEWRIGHT_INLINE F32x16 float_sum(I32x16 sum) { return to_float(sum); }

template <DType kD, int kPanels>
TILEWRIGHT_INLINE void store_row(char* to, bool stream, const F32x16 (&row)[kPanels]) {
  constexpr int kSize = kBytes<kD>, kLine = kLineVectors<kD>;
  if constexpr (kPanels % kLine == 0) {
    if (stream) {
      for (int p = 0; p < kPanels; p += kLine) {
        F32x16 line[kLine];
        for (int v = 0; v < kLine; ++v) line[v] = row[p + v];
        stream_line<kD>(to + p * kVec * kSize, line);
      }
      return;
    }
  }
  for (int p = 0; p < kPanels; ++p) store_vec<kD>(to + p * kVec * kSize, row[p]);
}

// A whole register tile of D, from row t.m and column n on, where stores_registers() holds. Branches are in each row: a copy of all rows for each type of D takes longer to compile.
template <DType kInput, int kRows, int kPanels, class Acc>
TILEWRIGHT_INLINE void store_registers(const GemmEpilogueArgs& e, const EpilogueTile& t, int64 n,
                                       const Acc (&acc)[kRows][kPanels]) {
  const int64 size = e.d_dtype == DType::kF32 ? 4 : 2, stride_d = e.stride_d_m * size;
  char* d = static_cast<char*>(e.d) + (t.batch * e.stride_d_batch + n) * size + t.m * stride_d;
  const bool scaled =
      kInput == DType::kI8 || e.scale_a.data != nullptr || e.scale_b.data != nullptr || e.bias.data != nullptr;
  RowScales scales;
  read_rows(e.scale_a, t.batch, t.m, kRows, scales);
  F32x16 scale[kPanels], bias[kPanels];
  for (int p = 0; p < kPanels; ++p) {
    scale[p] = read_columns(e.scale_b, t.batch, n + p * kVec, kVec, 1.0f);
    bias[p] = read_columns(e.bias, t.batch, n + p * kVec, kVec, -0.0f);
  }
  unroll<kRows>([&](auto r) __attribute__((always_inline)) {
    F32x16 row[kPanels];
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) { row[p] = float_sum(acc[r][p]); });
    if (scaled) {
      const F32x16 of_row = F32x16::splat(read_as<float>(scales.data + r * scales.step));
      unroll<kPanels>(
          [&](auto p) __attribute__((always_inline)) { row[p] = scale_and_add(row[p], of_row, scale[p], bias[p]); });
    }
    char* to = d + r * stride_d;
    if constexpr (kInput == DType::kI8) {
      with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
        store_row<decltype(type)::value, kPanels>(to, t.stream, row);
      });
    } else {
      store_row<kInput, kPanels>(to, t.stream, row);
    }
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
