// SPDX-License-Identifier: MIT
// The block-scaled matrix instructions of gfx950: A and B each in one of five formats, and a scale 2^(e - 127) for each 32
// consecutive k of a row of A and of a column of B.
//
// Numerics: products are exact. Those of 32 consecutive k are summed in f32 in ascending k (exact where both formats have 4
// or 6 bits), scaled exactly, and added to the f32 sum, which starts at C. A scale of 255 is NaN.
#pragma once

#include "tile/emu/matrix/multiply.hpp"

namespace tilewright::emu {

// The formats by the values of cbsz (A) and blgp (B): LLVM, IntrinsicsAMDGPU.td, AMDGPUMfmaScaleIntrinsic.
enum class F8f6f4 : unsigned char { kF8 = 0, kB8 = 1, kF6 = 2, kB6 = 3, kF4 = 4 };

constexpr int bits_of(F8f6f4 format) {
  return format == F8f6f4::kF4 ? 4 : format == F8f6f4::kF6 || format == F8f6f4::kB6 ? 6 : 8;
}
// Registers that are read: the builtin always passes eight, of which the first ones count.
constexpr int registers_of(F8f6f4 format) { return bits_of(format); }

// Cycles of the matrix pipe on gfx950: an operand of 8 bits doubles them (LLVM, SISchedule.td and GCNHazardRecognizer.cpp).
constexpr int f8f6f4_cycles(const MatrixInstruction& row, F8f6f4 a, F8f6f4 b) {
  const int cycles = row.cycles[static_cast<int>(MatrixTarget::kGfx950)];
  return bits_of(a) == 8 || bits_of(b) == 8 ? 2 * cycles : cycles;
}

template <F8f6f4 kFormat>
TILEWRIGHT_MATRIX_INLINE inline float f8f6f4_value(const unsigned char* registers, int e) {
  const std::uint32_t code = code_at<bits_of(kFormat)>(registers, e);
  if constexpr (kFormat == F8f6f4::kF8) return kValues<e4m3::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kB8) return kValues<e5m2::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kF6) return kValues<e2m3::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kB6) return kValues<e3m2::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kF4) return kValues<e2m1x2::Format>.values[code];
}

// The scales of one operand, [outer][block of 32]. `opsel` chooses the byte of the lanes' scale registers.
template <int kOuter, int kBlocks>
TILEWRIGHT_MATRIX void unpack_scales(const MatrixInstruction& row, const std::uint32_t (&words)[64], int opsel,
                                     double (&scales)[kOuter][kBlocks]) {
  for (int outer = 0; outer < kOuter; ++outer) {
    for (int block = 0; block < kBlocks; ++block) {
      const std::uint32_t word = words[scale_lane(row, outer, 32 * block)];
      scales[outer][block] = widen(e8m0{static_cast<unsigned char>(word >> 8 * opsel)});
    }
  }
}

// One instruction of a whole wave. A, B: at least the registers of their formats; the scales of all lanes, each a word of
// which opsel (0 to 3) chooses a byte.
template <int kRow, F8f6f4 kFormatA, F8f6f4 kFormatB, class A, class B, class C>
TILEWRIGHT_MATRIX void multiply_scaled(const A (&a)[64], const B (&b)[64], const C (&c)[64], C (&d)[64],
                                       const std::uint32_t (&scale_a)[64], int opsel_a,
                                       const std::uint32_t (&scale_b)[64], int opsel_b) {
  static_assert(kRow >= 0, "no such matrix instruction");
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  static_assert(row.a == MatrixElement::kF8f6f4, "multiply of multiply.hpp");
  static_assert(sizeof(A) >= 4 * registers_of(kFormatA) && sizeof(B) >= 4 * registers_of(kFormatB));
  static_assert(sizeof(C) == 4 * row.d_registers(), "registers of C");
  constexpr int kM = row.m, kN = row.n, kBlocks = row.k / 32;
  MatrixBlock<kM, kN, 32, float> blocks[kBlocks];
  for (int lane = 0; lane < 64; ++lane) {
    for (int e = 0; e < 32; ++e) {
      const MatrixInput at_a = f8f6f4_input_of(row, bits_of(kFormatA), lane, e);
      const MatrixInput at_b = f8f6f4_input_of(row, bits_of(kFormatB), lane, e);
      blocks[at_a.k / 32].a[at_a.outer][at_a.k % 32] =
          f8f6f4_value<kFormatA>(reinterpret_cast<const unsigned char*>(&a[lane]), e);
      blocks[at_b.k / 32].b[at_b.k % 32][at_b.outer] =
          f8f6f4_value<kFormatB>(reinterpret_cast<const unsigned char*>(&b[lane]), e);
    }
  }
  double scales_a[kM][kBlocks], scales_b[kN][kBlocks];
  unpack_scales(row, scale_a, opsel_a, scales_a);
  unpack_scales(row, scale_b, opsel_b, scales_b);

  float sums[kM][kN];
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      const MatrixOutput at = output_of(row, 0, i, j);
      sums[i][j] = read_result<kRow, float>(c[at.lane], at.element, false);
    }
  }
  for (int block = 0; block < kBlocks; ++block) {
    float products[kM][kN] = {};
    accumulate(blocks[block], products);
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        const double scale = scales_a[i][block] * scales_b[j][block];
        sums[i][j] = static_cast<float>(sums[i][j] + products[i][j] * scale);
      }
    }
  }
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      const MatrixOutput at = output_of(row, 0, i, j);
      write_result<kRow>(sums[i][j], d[at.lane], at.element, false);
    }
  }
}

}  // namespace tilewright::emu
