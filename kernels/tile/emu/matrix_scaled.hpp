// SPDX-License-Identifier: MIT
// The block-scaled matrix instructions of gfx950: A and B each in one of five formats, and a scale 2^(e - 127) for each 32
// consecutive k of a row of A and of a column of B.
//
// Numerics: as in matrix_multiply.hpp, with one rounding to f32 for each block of 32: its products, exact in f64 or nearly
// so, are summed in f64, scaled exactly and added to the f32 sum. A scale of 255 is NaN.
#pragma once

#include "tile/emu/matrix_multiply.hpp"

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
[[gnu::always_inline]] inline float f8f6f4_value(const unsigned char* registers, int e) {
  const std::uint32_t code = code_at<bits_of(kFormat)>(registers, e);
  if constexpr (kFormat == F8f6f4::kF8) return kValues<e4m3::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kB8) return kValues<e5m2::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kF6) return kValues<e2m3::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kB6) return kValues<e3m2::Format>.values[code];
  if constexpr (kFormat == F8f6f4::kF4) return kValues<e2m1x2::Format>.values[code];
}

// One operand: values[outer][k], and scales[outer][block of 32]. `opsel` chooses the byte of the lanes' scale registers.
template <int kRow, F8f6f4 kFormat, int kOuter, int kK, class Lane>
void unpack_scaled(const Lane (&lanes)[64], const std::uint32_t (&scale_words)[64], int opsel,
                   float (&values)[kOuter][kK], double (&scales)[kOuter][kK / 32]) {
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  for (int lane = 0; lane < 64; ++lane) {
    for (int e = 0; e < 32; ++e) {
      const MatrixInput at = f8f6f4_input_of(row, bits_of(kFormat), lane, e);
      values[at.outer][at.k] = f8f6f4_value<kFormat>(reinterpret_cast<const unsigned char*>(&lanes[lane]), e);
    }
  }
  for (int outer = 0; outer < kOuter; ++outer) {
    for (int k = 0; k < kK; k += 32) {
      const std::uint32_t word = scale_words[scale_lane(row, outer, k)];
      scales[outer][k / 32] = widen(e8m0{static_cast<unsigned char>(word >> 8 * opsel)});
    }
  }
}

// One instruction of a whole wave. A, B: at least the registers of their formats; the scales of all lanes, each a word of
// which opsel (0 to 3) chooses a byte.
template <int kRow, F8f6f4 kFormatA, F8f6f4 kFormatB, class A, class B, class C>
void multiply_scaled(const A (&a)[64], const B (&b)[64], const C (&c)[64], C (&d)[64],
                     const std::uint32_t (&scale_a)[64], int opsel_a, const std::uint32_t (&scale_b)[64], int opsel_b) {
  static_assert(kRow >= 0, "no such matrix instruction");
  constexpr const MatrixInstruction& row = matrix_rows::kRows[kRow];
  static_assert(row.a == MatrixElement::kF8f6f4, "multiply of matrix_multiply.hpp");
  static_assert(sizeof(A) >= 4 * registers_of(kFormatA) && sizeof(B) >= 4 * registers_of(kFormatB));
  static_assert(sizeof(C) == 4 * row.d_registers());
  constexpr int kM = row.m, kN = row.n, kK = row.k;
  float values_a[kM][kK], values_b[kN][kK];
  double scales_a[kM][kK / 32], scales_b[kN][kK / 32];
  unpack_scaled<kRow, kFormatA>(a, scale_a, opsel_a, values_a, scales_a);
  unpack_scaled<kRow, kFormatB>(b, scale_b, opsel_b, values_b, scales_b);

  // B with k outside, as rows of D want it.
  static_assert(kN % 4 == 0);
  float transposed[kK][kN];
  for (int j = 0; j < kN; ++j) {
    for (int k = 0; k < kK; ++k) transposed[k][j] = values_b[j][k];
  }
  for (int i = 0; i < kM; ++i) {
    float sums[kN];
    for (int j = 0; j < kN; ++j) {
      const MatrixOutput at = output_of(row, 0, i, j);
      sums[j] = read_result<kRow, float>(c[at.lane], at.element, false);
    }
    for (int block = 0; block < kK / 32; ++block) {
      typedef double Vector [[gnu::vector_size(32)]];
      typedef float Narrow4 [[gnu::vector_size(16)]];
      for (int j = 0; j < kN; j += 4) {
        Vector sum = {};
        for (int k = 32 * block; k < 32 * block + 32; ++k) {
          Narrow4 b4;
          __builtin_memcpy(&b4, &transposed[k][j], sizeof b4);
          sum += static_cast<double>(values_a[i][k]) * __builtin_convertvector(b4, Vector);
        }
        for (int t = 0; t < 4; ++t) {
          const double scaled = sum[t] * (scales_a[i][block] * scales_b[j + t][block]);
          sums[j + t] = static_cast<float>(sums[j + t] + scaled);
        }
      }
    }
    for (int j = 0; j < kN; ++j) {
      const MatrixOutput at = output_of(row, 0, i, j);
      write_result<kRow>(sums[j], d[at.lane], at.element, false);
    }
  }
}

}  // namespace tilewright::emu
