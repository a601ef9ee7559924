// SPDX-License-Identifier: MIT
// D = A * B + C over the registers of a wave, for every row of the table but f8f6f4 (scaled.hpp).
//
// Numerics: products are exact. f32 results start at C and take the products in ascending k, one rounding to f32 each
// (f32 and xf32 inputs: product and sum in f64 first); 16-bit results are rounded once, at the end, to nearest even;
// i32 results wrap unless clamp asks for saturation. Denormals stay everywhere, NaN and infinities are IEEE's. What order
// the hardware takes, and where it rounds, is not documented: results agree with it within the bound of a f32 sum.
#pragma once

#include "tile/emu/matrix/elements.hpp"
#include "tile/emu/matrix/layout.hpp"

namespace tilewright::emu {

// Operands of one block: a[i][k] and b[k][j], C and D as [i][j].
template <int kM, int kN, int kK, class T>
struct MatrixBlock {
  T a[kM][kK];
  T b[kK][kN];
};

// d[i][j] = c[i][j] + sum over k, in place: two rows and a few columns of D at a time stay in registers. The vectors are
// of a size that compilers split well without AVX.
template <int kM, int kN, int kK>
TILEWRIGHT_MATRIX void accumulate(const MatrixBlock<kM, kN, kK, float>& block, float (&d)[kM][kN]) {
  constexpr int kWidth = kN < 8 ? kN : 8;
  typedef float Vector [[gnu::vector_size(4 * kWidth)]];
  for (int i = 0; i < kM; i += 2) {
    for (int j = 0; j < kN; j += kWidth) {
      Vector sum0, sum1, b;
      __builtin_memcpy(&sum0, &d[i][j], sizeof sum0);
      __builtin_memcpy(&sum1, &d[i + 1][j], sizeof sum1);
      for (int k = 0; k < kK; ++k) {
        __builtin_memcpy(&b, &block.b[k][j], sizeof b);
        sum0 += block.a[i][k] * b;
        sum1 += block.a[i + 1][k] * b;
      }
      __builtin_memcpy(&d[i][j], &sum0, sizeof sum0);
      __builtin_memcpy(&d[i + 1][j], &sum1, sizeof sum1);
    }
  }
}

// The same with inputs of f32: f64 holds a product exactly.
template <int kM, int kN, int kK>
TILEWRIGHT_MATRIX void accumulate_wide(const MatrixBlock<kM, kN, kK, float>& block, float (&d)[kM][kN]) {
  for (int i = 0; i < kM; ++i) {
    for (int k = 0; k < kK; ++k) {
      const double a = block.a[i][k];
      for (int j = 0; j < kN; ++j) d[i][j] = static_cast<float>(d[i][j] + a * block.b[k][j]);
    }
  }
}

template <int kM, int kN, int kK>
TILEWRIGHT_MATRIX void accumulate(const MatrixBlock<kM, kN, kK, double>& block, double (&d)[kM][kN]) {
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      for (int k = 0; k < kK; ++k) d[i][j] = __builtin_fma(block.a[i][k], block.b[k][j], d[i][j]);
    }
  }
}

// Sums of up to 64 products of bytes are below 2^24: exact in f32, in any order.
template <int kM, int kN, int kK>
TILEWRIGHT_MATRIX void accumulate(const MatrixBlock<kM, kN, kK, float>& block, std::int32_t (&d)[kM][kN], bool clamp) {
  float sums[kM][kN] = {};
  accumulate(block, sums);
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      const std::int64_t sum = static_cast<std::int64_t>(d[i][j]) + static_cast<std::int32_t>(sums[i][j]);
      constexpr std::int64_t kLow = INT32_MIN, kHigh = INT32_MAX;
      d[i][j] = static_cast<std::int32_t>(!clamp ? sum : sum < kLow ? kLow : sum > kHigh ? kHigh : sum);
    }
  }
}

template <MatrixElement kElement, MatrixTarget kTarget>
TILEWRIGHT_MATRIX_INLINE inline auto input_value(const void* registers, int e, bool is_signed) {
  if constexpr (kElement == MatrixElement::kF64) {
    double value;
    __builtin_memcpy(&value, registers, 8);
    return value;
  } else {
    return value_at<kElement, kTarget>(static_cast<const unsigned char*>(registers), e, is_signed);
  }
}

// C and D by element of a lane. 16-bit results of gfx11 take half of each register, `upper` or lower.
template <int kRow, class T, class Lane>
TILEWRIGHT_MATRIX_INLINE inline T read_result(const Lane& lane, int element, bool upper) {
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  constexpr int kStride = row.layout == MatrixLayout::kWmma11 ? 4 : bits_of(row.d) / 8;
  const unsigned char* p = reinterpret_cast<const unsigned char*>(&lane) + element * kStride + (upper ? 2 : 0);
  if constexpr (bits_of(row.d) == 16) {
    const std::uint32_t code = code_at<16>(p, 0);
    return row.d == MatrixElement::kF16 ? f16::Format::widen(code) : bf16::Format::widen(code);
  } else {
    T value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
  }
}
template <int kRow, class T, class Lane>
TILEWRIGHT_MATRIX_INLINE inline void write_result(T value, Lane& lane, int element, bool upper) {
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  constexpr int kStride = row.layout == MatrixLayout::kWmma11 ? 4 : bits_of(row.d) / 8;
  unsigned char* p = reinterpret_cast<unsigned char*>(&lane) + element * kStride + (upper ? 2 : 0);
  if constexpr (bits_of(row.d) == 16) {
    const auto code = static_cast<std::uint16_t>(row.d == MatrixElement::kF16 ? f16::Format::narrow(value)
                                                                              : bf16::Format::narrow(value));
    __builtin_memcpy(p, &code, 2);
  } else {
    __builtin_memcpy(p, &value, sizeof value);
  }
}

// How sums and inputs are held.
template <MatrixElement kElement>
struct MatrixArithmetic {
  using Sum = float;
  using Input = float;
};
template <>
struct MatrixArithmetic<MatrixElement::kF64> {
  using Sum = double;
  using Input = double;
};
template <>
struct MatrixArithmetic<MatrixElement::kI32> {
  using Sum = std::int32_t;
  using Input = float;
};

// gfx11 writes halves of the registers of a 16-bit result. The tied forms keep C in the others; without a tie there may
// be anything, here a NaN that nobody takes for a result.
template <int kRow, class C>
TILEWRIGHT_MATRIX void fill_other_halves(const C& c, C& d, bool upper) {
  constexpr bool tied =
      kRow == matrix_row("wmma_f16_16x16x16_f16_tied_w32") || kRow == matrix_row("wmma_bf16_16x16x16_bf16_tied_w32");
  constexpr std::uint16_t kPoison = 0x7FFD;
  for (int r = 0; r < matrix_rows::kRows[kRow].d_registers(); ++r) {
    const int offset = 4 * r + (upper ? 0 : 2);
    const void* from = tied ? reinterpret_cast<const unsigned char*>(&c) + offset : static_cast<const void*>(&kPoison);
    __builtin_memmove(reinterpret_cast<unsigned char*>(&d) + offset, from, 2);
  }
}

// One instruction of a whole wave. A, B, C: what a lane holds, of exactly the registers that the table says (vectors of
// the builtin, integers, arrays in structs). The modifiers must be ones that takes() allows. `d` may be `c`.
template <int kRow, MatrixTarget kTarget, class A, class B, class C, int kLanes>
TILEWRIGHT_MATRIX void multiply(const A (&a)[kLanes], const B (&b)[kLanes], const C (&c)[kLanes], C (&d)[kLanes],
                                const MatrixModifiers& modifiers = {}) {
  static_assert(kRow >= 0, "no such matrix instruction");
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  static_assert(row.on(kTarget), "the target does not have this matrix instruction");
  static_assert(row.a != MatrixElement::kF8f6f4, "multiply_scaled of scaled.hpp");
  static_assert(kLanes == row.lanes());
  static_assert(sizeof(A) == 4 * row.a_registers() && sizeof(B) == 4 * row.b_registers(), "registers of A or B");
  static_assert(sizeof(C) == 4 * row.d_registers(), "registers of C");
  constexpr int kM = row.m, kN = row.n, kK = row.k, kBlocks = row.blocks;
  using Sum = typename MatrixArithmetic<row.d>::Sum;

  MatrixBlock<kM, kN, kK, typename MatrixArithmetic<row.d>::Input> blocks[kBlocks];
  constexpr int kElementsA = 32 * row.a_registers() / bits_of(row.a);
  constexpr int kElementsB = 32 * row.b_registers() / bits_of(row.b);
  constexpr int kInputLanes = row.layout == MatrixLayout::kWmma11 ? 16 : kLanes;
  for (int lane = 0; lane < kInputLanes; ++lane) {
    for (int e = 0; e < kElementsA; ++e) {
      const MatrixInput at = input_of(row, kM, lane, e);
      blocks[at.block].a[at.outer][at.k] = input_value<row.a, kTarget>(&a[lane], e, modifiers.a_signed);
    }
    const B& source = b[permuted_lane(lane, modifiers.blgp)];
    for (int e = 0; e < kElementsB; ++e) {
      const MatrixInput at = input_of(row, kN, lane, e);
      blocks[at.block].b[at.k][at.outer] = input_value<row.b, kTarget>(&source, e, modifiers.b_signed);
    }
  }
  if (modifiers.cbsz != 0) {
    for (int block = 0; block < kBlocks; ++block) {
      const int from = broadcast_block(block, modifiers);
      if (from != block) __builtin_memcpy(blocks[block].a, blocks[from].a, sizeof blocks[block].a);
    }
  }

  if constexpr (row.layout == MatrixLayout::kWmma11 && bits_of(row.d) == 16) {
    for (int lane = 0; lane < kLanes; ++lane) fill_other_halves<kRow>(c[lane], d[lane], modifiers.opsel);
  }
  for (int block = 0; block < kBlocks; ++block) {
    Sum sums[kM][kN];
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        const MatrixOutput at = output_of(row, block, i, j);
        sums[i][j] = read_result<kRow, Sum>(c[at.lane], at.element, modifiers.opsel);
      }
    }
    if constexpr (row.d == MatrixElement::kI32) {
      accumulate(blocks[block], sums, modifiers.clamp);
    } else if constexpr (row.a == MatrixElement::kF32 || row.a == MatrixElement::kXf32) {
      accumulate_wide(blocks[block], sums);
    } else {
      accumulate(blocks[block], sums);
    }
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        const MatrixOutput at = output_of(row, block, i, j);
        write_result<kRow>(sums[i][j], d[at.lane], at.element, modifiers.opsel);
      }
    }
  }
}

}  // namespace tilewright::emu
