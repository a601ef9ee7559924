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
inline constexpr bool kStoresRegisters =
    kMma == CpuMma::kDotBf16 || kMma == CpuMma::kDotI8 || kMma == CpuMma::kFmaAvx512;

// Which sums go to D from the registers that they are made in. kLeast: floats that D keeps as they are; integers with scales
// and a D of bf16, none of whose values is subnormal. kMore, which fma leaves to the way through memory: scales of rows and
// columns and a bias, and integers to any D.
enum class FromRegisters : unsigned char { kNo, kLeast, kMore };

// The least magnitude of `count` numbers of an operand, `stride` elements apart, NaN left out; of none 1.
inline float least_magnitude(const EpilogueOperand& operand, int64 first, int64 stride, int64 count) {
  if (operand.data == nullptr || count <= 0) return 1.0f;
  F32x16 least = F32x16::splat(__builtin_inff());
  with_float_type(operand.dtype, [&](auto type) __attribute__((always_inline)) {
    constexpr DType kType = decltype(type)::value;
    const char* from = static_cast<const char*>(operand.data) + first * kBytes<kType>;
    int64 i = 0;
    for (; stride == 1 && i + kVec <= count; i += kVec) {
      least = at_most(least, absolute(load_vec<kType>(from + i * kBytes<kType>)));
    }
    for (; i < (stride == 0 ? 1 : count); ++i) {
      least = at_most(least, absolute(F32x16::splat(load_one<kType>(from + i * stride * kBytes<kType>))));
    }
  });
  alignas(64) float lanes[kVec];
  least.store(lanes);
  for (float lane : lanes) lanes[0] = lane < lanes[0] ? lane : lanes[0];
  return lanes[0];
}

// Rows and columns of D that a unit computes, of one batch entry.
struct UnitRectangle {
  int64 batch, m_begin, m_end, n_begin, n_end;
};

// Whether no product of a whole number, a row's scale and a column's is subnormal: the least is that of 1.
inline bool scales_stay_normal(const GemmEpilogueArgs& e, const UnitRectangle& d) {
  const EpilogueOperand &a = e.scale_a, &b = e.scale_b;
  const float row =
      least_magnitude(a, d.batch * a.stride_batch + d.m_begin * a.stride_m, a.stride_m, d.m_end - d.m_begin);
  const float column =
      least_magnitude(b, d.batch * b.stride_batch + d.n_begin * b.stride_n, b.stride_n, d.n_end - d.n_begin);
  return row * column >= 0x1p-126f;
}

template <DType kType, CpuMma kMma>
inline FromRegisters from_registers(const GemmEpilogueArgs& e, const UnitRectangle& d) {
  if (!kStoresRegisters<kMma> || !is_only_linear(e) || e.alpha != 1.0f) return FromRegisters::kNo;
  const bool biased = e.bias.data != nullptr;
  if constexpr (is_integer(kMma)) {
    const bool least = !biased && e.d_dtype == DType::kBf16 && scales_stay_normal(e, d);
    return least ? FromRegisters::kLeast : FromRegisters::kMore;
  }
  if (e.d_dtype != kType) return FromRegisters::kNo;
  if (!biased && e.scale_a.data == nullptr && e.scale_b.data == nullptr) return FromRegisters::kLeast;
  return kMma == CpuMma::kFmaAvx512 ? FromRegisters::kNo : FromRegisters::kMore;
}

TILEWRIGHT_INLINE F32x16 float_sum(F32x16 sum) { return sum; }
TILEWRIGHT_INLINE F32x16 float_sum(I32x16 sum) { return to_float(sum); }

// kNormal: no value is subnormal.
template <DType kD, bool kNormal, int kPanels>
TILEWRIGHT_INLINE void store_row(char* to, bool stream, const F32x16 (&row)[kPanels]) {
  constexpr int kSize = kBytes<kD>, kLine = kLineVectors<kD>;
  if constexpr (kPanels % kLine == 0) {
    if (stream) {
      for (int p = 0; p < kPanels; p += kLine) {
        F32x16 line[kLine];
        for (int v = 0; v < kLine; ++v) line[v] = row[p + v];
        stream_line<kD, kNormal>(to + p * kVec * kSize, line);
      }
      return;
    }
  }
  for (int p = 0; p < kPanels; ++p) store_vec<kD, kNormal>(to + p * kVec * kSize, row[p]);
}

// A whole register tile of D, from row t.m and column n on. kLeast has rows of its own: what multiplies by 1, adds nothing or asks
// in each row whether it must takes as long as the rest.
template <DType kInput, FromRegisters kWhat, int kRows, int kPanels, class Acc>
TILEWRIGHT_INLINE void store_registers(const GemmEpilogueArgs& e, const EpilogueTile& t, int64 n,
                                       const Acc (&acc)[kRows][kPanels]) {
  constexpr bool kInteger = kInput == DType::kI8, kLeast = kWhat == FromRegisters::kLeast;
  const int64 size = e.d_dtype == DType::kF32 ? 4 : 2, stride_d = e.stride_d_m * size;
  char* d = static_cast<char*>(e.d) + (t.batch * e.stride_d_batch + n) * size + t.m * stride_d;
  RowScales scales;
  F32x16 scale[kPanels], bias[kPanels];
  if constexpr (kInteger || !kLeast) {
    read_rows(e.scale_a, t.batch, t.m, kRows, scales);
    for (int p = 0; p < kPanels; ++p) scale[p] = read_columns(e.scale_b, t.batch, n + p * kVec, kVec, 1.0f);
  }
  if constexpr (!kLeast) {
    for (int p = 0; p < kPanels; ++p) bias[p] = read_columns(e.bias, t.batch, n + p * kVec, kVec, -0.0f);
  }
  unroll<kRows>([&](auto r) __attribute__((always_inline)) {
    F32x16 row[kPanels];
    unroll<kPanels>([&](auto p) __attribute__((always_inline)) {
      row[p] = float_sum(acc[r][p]);
      if constexpr (kInteger || !kLeast) {
        const F32x16 of_row = F32x16::splat(read_as<float>(scales.data + r * scales.step));
        if constexpr (kLeast) {
          row[p] = row[p] * of_row * scale[p];
        } else {
          row[p] = scale_and_add(row[p], of_row, scale[p], bias[p]);
        }
      }
    });
    char* to = d + r * stride_d;
    if constexpr (kInteger && kLeast) {
      store_row<DType::kBf16, true>(to, t.stream, row);
    } else if constexpr (kInteger) {
      // In each row: a copy of all rows for each type takes longer to compile.
      with_float_type(e.d_dtype, [&](auto type) __attribute__((always_inline)) {
        store_row<decltype(type)::value, false>(to, t.stream, row);
      });
    } else {
      store_row<kInput, false>(to, t.stream, row);
    }
  });
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
