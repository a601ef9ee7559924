// SPDX-License-Identifier: MIT
// The epilogue of a whole register tile: what most large products ask for, a scale a row and a scale and a bias a column,
// goes from the micro-kernel's sums straight to D. Everything else goes through memory (gemm_epilogue_cpu.hpp), with the same
// bits.
#pragma once

#include "gemm/cpu/gemm_epilogue_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// Whether sums of kType may go to D from the registers that they are made in: nothing but scales of rows and columns and a
// bias follows. A type of D is unrolled code, so of floats it is their own.
template <DType kType>
inline bool stores_registers(const GemmEpilogueArgs& e) {
  return e.gate == GateMode::kNone && e.activation == Activation::kNone && e.step_count == 0 && e.stride_d_n == 1 &&
         e.alpha == 1.0f && is_linear_by_columns(e) && (kType == DType::kI8 || e.d_dtype == kType);
}
// That, of a whole register tile from row t.m and column n on. Operations and their order are linear_value()'s.
template <DType kInput, int kRows, int kPanels, class Acc>
TILEWRIGHT_INLINE void store_registers(const GemmEpilogueArgs& e, const EpilogueTile& t, int64 n,
                                       const Acc (&acc)[kRows][kPanels]) {
  constexpr bool kInteger = kInput == DType::kI8;
  const bool scaled = kInteger || e.scale_a.data != nullptr || e.scale_b.data != nullptr || e.bias.data != nullptr;
  RowScales scales;
  read_rows(e.scale_a, t.batch, t.m, kRows, scales);
  F32x16 scale[kPanels], bias[kPanels];
  unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
    scale[p] = read_columns(e.scale_b, t.batch, n + p * kVec, kVec, 1.0f);
    bias[p] = read_columns(e.bias, t.batch, n + p * kVec, kVec, -0.0f);
  });
  with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    if constexpr (kInteger || kType == kInput) {
      constexpr int kSize = kBytes<kType>, kLine = kLineVectors<kType>;
      char* d = static_cast<char*>(e.d) + (t.batch * e.stride_d_batch + t.m * e.stride_d_m + n) * kSize;
      const auto rows = [&](auto value) __attribute__((always_inline)) {
        unroll<kRows>([&](auto r) __attribute__((always_inline)) {
          F32x16 row[kPanels];
          unroll<kPanels>([&](auto p) __attribute__((always_inline)) { row[p] = value(r, p); });
          char* to = d + r * e.stride_d_m * kSize;
          if constexpr (kPanels % kLine == 0) {
            if (t.stream) {
              for (int p = 0; p < kPanels; p += kLine) {
                F32x16 line[kLine];
                for (int v = 0; v < kLine; ++v) line[v] = row[p + v];
                stream_line<kType>(to + p * kVec * kSize, line);
              }
              return;
            }
          }
          unroll<kPanels>([&](auto p)
                              __attribute__((always_inline)) { store_vec<kType>(to + p * kVec * kSize, row[p]); });
        });
      };
      const auto sum = [&](auto r, auto p) __attribute__((always_inline)) {
        if constexpr (kInteger) return to_float(acc[r][p]);
        if constexpr (!kInteger) return acc[r][p];
      };
      if (scaled) {
        rows([&](auto r, auto p) __attribute__((always_inline)) {
          const F32x16 of_row = F32x16::splat(read_as<float>(scales.data + r * scales.step));
          return fma(F32x16::splat(1.0f), bias[p], sum(r, p) * of_row * scale[p]);
        });
      } else {
        rows(sum);
      }
    }
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
