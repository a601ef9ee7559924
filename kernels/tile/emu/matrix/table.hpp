// SPDX-License-Identifier: MIT
// The matrix instructions of AMD GPUs, one row each: names, shapes, element types, registers and cycles. The emulated
// builtins, their tests and the throughput bound of a main loop all read this table.
//
// Sources: the instruction tables of ROCm/amd_matrix_instruction_calculator 1.3.2 (matrix_calculator.py, dict_insts) for
// gfx90a, gfx942, gfx1100 and gfx1201; for gfx950 clang's builtins (BuiltinsAMDGPU.def) and the passes of LLVM's model of
// it (SISchedule.td, as llvm-mca prints them).
#pragma once

#include "tile/common/numeric.hpp"

// What computes inside an instruction is not the kernel's own loads and stores: instrumentation passes it by.
#define TILEWRIGHT_MATRIX __attribute__((no_sanitize("thread", "alignment")))
#define TILEWRIGHT_MATRIX_INLINE __attribute__((no_sanitize("thread", "alignment"), always_inline))

namespace tilewright::emu {

enum class MatrixTarget : unsigned char { kGfx90a, kGfx942, kGfx950, kGfx1100, kGfx1201 };
inline constexpr int kMatrixTargets = 5;

// kF8 is e4m3 and kB8 e5m2, in the encoding of the target: FNUZ on gfx942, OCP elsewhere. kF8f6f4 is chosen by operands.
enum class MatrixElement : unsigned char { kF64, kF32, kXf32, kF16, kBf16, kI8, kIu8, kIu4, kF8, kB8, kF8f6f4, kI32 };

constexpr int bits_of(MatrixElement e) {
  switch (e) {
    case MatrixElement::kF64: return 64;
    case MatrixElement::kF32:
    case MatrixElement::kXf32:
    case MatrixElement::kI32: return 32;
    case MatrixElement::kF16:
    case MatrixElement::kBf16: return 16;
    case MatrixElement::kIu4: return 4;
    default: return 8;  // an operand of f8f6f4 takes the registers of its widest format
  }
}

// Where elements lie: MFMA of wave64, WMMA of wave32 as gfx11 and gfx12 have it.
enum class MatrixLayout : unsigned char { kMfma, kWmma11, kWmma12 };

struct MatrixInstruction {
  const char* name;  // as clang spells it, without __builtin_amdgcn_
  MatrixLayout layout;
  int m, n, k, blocks;
  MatrixElement a, b, d;  // C is as D
  // Cycles of a SIMD's matrix pipe on each target; 0: the target does not have it. A pass of MFMA is four cycles.
  int cycles[kMatrixTargets];

  constexpr int lanes() const { return layout == MatrixLayout::kMfma ? 64 : 32; }
  constexpr bool on(MatrixTarget target) const { return cycles[static_cast<int>(target)] != 0; }
  // 32-bit registers of a lane. gfx11 holds A and B twice, and 16-bit results in one half of each register.
  constexpr int a_registers() const { return input_registers(m, a); }
  constexpr int b_registers() const { return input_registers(n, b); }
  constexpr int d_registers() const {
    if (layout == MatrixLayout::kWmma11) return m * n / lanes();
    return m * n * blocks * bits_of(d) / (32 * lanes());
  }
  constexpr int input_registers(int outer, MatrixElement e) const {
    const int copies = layout == MatrixLayout::kWmma11 ? 2 : 1;
    const int bits = outer * k * blocks * bits_of(e) * copies / lanes();
    return bits < 32 ? 1 : bits / 32;  // 4x4x2 bf16 and the like fill a register; nothing is smaller
  }
  constexpr long operations() const { return 2L * m * n * k * blocks; }

  // Whether blgp (lanes of B permuted) may be other than 0, and, with several blocks, cbsz and abid (one block of A for
  // several): the flags blgp and cbsz_abid of the calculator's table. gfx950 is taken to be as gfx942.
  constexpr bool broadcasts(MatrixTarget target) const {
    const bool first_kind =
        a == MatrixElement::kF32 || a == MatrixElement::kF16 || a == MatrixElement::kBf16 || a == MatrixElement::kI8;
    return layout == MatrixLayout::kMfma && first_kind &&
           (target == MatrixTarget::kGfx90a || blocks > 1 || a == MatrixElement::kF32);
  }
};

namespace matrix_rows {
using enum MatrixElement;
inline constexpr MatrixLayout kMfma = MatrixLayout::kMfma;
inline constexpr MatrixLayout kW11 = MatrixLayout::kWmma11;
inline constexpr MatrixLayout kW12 = MatrixLayout::kWmma12;

// clang-format off
inline constexpr MatrixInstruction kRows[] = {
    // name                              layout  m   n   k  blocks a    b      d      90a 942 950 1100 1201
    {"mfma_f32_32x32x1f32",              kMfma, 32, 32,   1,  2, kF32,  kF32,  kF32, {64, 64, 64,  0,  0}},
    {"mfma_f32_16x16x1f32",              kMfma, 16, 16,   1,  4, kF32,  kF32,  kF32, {32, 32, 32,  0,  0}},
    {"mfma_f32_4x4x1f32",                kMfma,  4,  4,   1, 16, kF32,  kF32,  kF32, { 8,  8,  8,  0,  0}},
    {"mfma_f32_32x32x2f32",              kMfma, 32, 32,   2,  1, kF32,  kF32,  kF32, {64, 64, 64,  0,  0}},
    {"mfma_f32_16x16x4f32",              kMfma, 16, 16,   4,  1, kF32,  kF32,  kF32, {32, 32, 32,  0,  0}},
    {"mfma_f32_32x32x4f16",              kMfma, 32, 32,   4,  2, kF16,  kF16,  kF32, {64, 64, 64,  0,  0}},
    {"mfma_f32_16x16x4f16",              kMfma, 16, 16,   4,  4, kF16,  kF16,  kF32, {32, 32, 32,  0,  0}},
    {"mfma_f32_4x4x4f16",                kMfma,  4,  4,   4, 16, kF16,  kF16,  kF32, { 8,  8,  8,  0,  0}},
    {"mfma_f32_32x32x8f16",              kMfma, 32, 32,   8,  1, kF16,  kF16,  kF32, {64, 32, 32,  0,  0}},
    {"mfma_f32_16x16x16f16",             kMfma, 16, 16,  16,  1, kF16,  kF16,  kF32, {32, 16, 16,  0,  0}},
    {"mfma_f32_32x32x2bf16",             kMfma, 32, 32,   2,  2, kBf16, kBf16, kF32, {64,  0,  0,  0,  0}},
    {"mfma_f32_16x16x2bf16",             kMfma, 16, 16,   2,  4, kBf16, kBf16, kF32, {32,  0,  0,  0,  0}},
    {"mfma_f32_4x4x2bf16",               kMfma,  4,  4,   2, 16, kBf16, kBf16, kF32, { 8,  0,  0,  0,  0}},
    {"mfma_f32_32x32x4bf16",             kMfma, 32, 32,   4,  1, kBf16, kBf16, kF32, {64,  0,  0,  0,  0}},
    {"mfma_f32_16x16x8bf16",             kMfma, 16, 16,   8,  1, kBf16, kBf16, kF32, {32,  0,  0,  0,  0}},
    {"mfma_f32_32x32x4bf16_1k",          kMfma, 32, 32,   4,  2, kBf16, kBf16, kF32, {64, 64, 64,  0,  0}},
    {"mfma_f32_16x16x4bf16_1k",          kMfma, 16, 16,   4,  4, kBf16, kBf16, kF32, {32, 32, 32,  0,  0}},
    {"mfma_f32_4x4x4bf16_1k",            kMfma,  4,  4,   4, 16, kBf16, kBf16, kF32, { 8,  8,  8,  0,  0}},
    {"mfma_f32_32x32x8bf16_1k",          kMfma, 32, 32,   8,  1, kBf16, kBf16, kF32, {64, 32, 32,  0,  0}},
    {"mfma_f32_16x16x16bf16_1k",         kMfma, 16, 16,  16,  1, kBf16, kBf16, kF32, {32, 16, 16,  0,  0}},
    {"mfma_i32_32x32x4i8",               kMfma, 32, 32,   4,  2, kI8,   kI8,   kI32, {64, 64, 64,  0,  0}},
    {"mfma_i32_16x16x4i8",               kMfma, 16, 16,   4,  4, kI8,   kI8,   kI32, {32, 32, 32,  0,  0}},
    {"mfma_i32_4x4x4i8",                 kMfma,  4,  4,   4, 16, kI8,   kI8,   kI32, { 8,  8,  8,  0,  0}},
    {"mfma_i32_32x32x8i8",               kMfma, 32, 32,   8,  1, kI8,   kI8,   kI32, {64,  0,  0,  0,  0}},
    {"mfma_i32_16x16x16i8",              kMfma, 16, 16,  16,  1, kI8,   kI8,   kI32, {32,  0,  0,  0,  0}},
    {"mfma_f64_16x16x4f64",              kMfma, 16, 16,   4,  1, kF64,  kF64,  kF64, {32, 32, 64,  0,  0}},
    {"mfma_f64_4x4x4f64",                kMfma,  4,  4,   4,  4, kF64,  kF64,  kF64, {16, 16, 16,  0,  0}},
    {"mfma_i32_32x32x16_i8",             kMfma, 32, 32,  16,  1, kI8,   kI8,   kI32, { 0, 32, 32,  0,  0}},
    {"mfma_i32_16x16x32_i8",             kMfma, 16, 16,  32,  1, kI8,   kI8,   kI32, { 0, 16, 16,  0,  0}},
    {"mfma_f32_32x32x4_xf32",            kMfma, 32, 32,   4,  1, kXf32, kXf32, kF32, { 0, 32,  0,  0,  0}},
    {"mfma_f32_16x16x8_xf32",            kMfma, 16, 16,   8,  1, kXf32, kXf32, kF32, { 0, 16,  0,  0,  0}},
    {"mfma_f32_32x32x16_fp8_fp8",        kMfma, 32, 32,  16,  1, kF8,   kF8,   kF32, { 0, 32, 32,  0,  0}},
    {"mfma_f32_32x32x16_fp8_bf8",        kMfma, 32, 32,  16,  1, kF8,   kB8,   kF32, { 0, 32, 32,  0,  0}},
    {"mfma_f32_32x32x16_bf8_fp8",        kMfma, 32, 32,  16,  1, kB8,   kF8,   kF32, { 0, 32, 32,  0,  0}},
    {"mfma_f32_32x32x16_bf8_bf8",        kMfma, 32, 32,  16,  1, kB8,   kB8,   kF32, { 0, 32, 32,  0,  0}},
    {"mfma_f32_16x16x32_fp8_fp8",        kMfma, 16, 16,  32,  1, kF8,   kF8,   kF32, { 0, 16, 16,  0,  0}},
    {"mfma_f32_16x16x32_fp8_bf8",        kMfma, 16, 16,  32,  1, kF8,   kB8,   kF32, { 0, 16, 16,  0,  0}},
    {"mfma_f32_16x16x32_bf8_fp8",        kMfma, 16, 16,  32,  1, kB8,   kF8,   kF32, { 0, 16, 16,  0,  0}},
    {"mfma_f32_16x16x32_bf8_bf8",        kMfma, 16, 16,  32,  1, kB8,   kB8,   kF32, { 0, 16, 16,  0,  0}},
    {"mfma_f32_32x32x16_f16",            kMfma, 32, 32,  16,  1, kF16,  kF16,  kF32, { 0,  0, 32,  0,  0}},
    {"mfma_f32_16x16x32_f16",            kMfma, 16, 16,  32,  1, kF16,  kF16,  kF32, { 0,  0, 16,  0,  0}},
    {"mfma_f32_32x32x16_bf16",           kMfma, 32, 32,  16,  1, kBf16, kBf16, kF32, { 0,  0, 32,  0,  0}},
    {"mfma_f32_16x16x32_bf16",           kMfma, 16, 16,  32,  1, kBf16, kBf16, kF32, { 0,  0, 16,  0,  0}},
    {"mfma_i32_32x32x32_i8",             kMfma, 32, 32,  32,  1, kI8,   kI8,   kI32, { 0,  0, 32,  0,  0}},
    {"mfma_i32_16x16x64_i8",             kMfma, 16, 16,  64,  1, kI8,   kI8,   kI32, { 0,  0, 16,  0,  0}},
    // With operands of 4 and 6 bits; an operand of 8 bits doubles the cycles (f8f6f4_cycles of scaled.hpp).
    {"mfma_scale_f32_32x32x64_f8f6f4",   kMfma, 32, 32,  64,  1, kF8f6f4, kF8f6f4, kF32, {0, 0, 32,  0,  0}},
    {"mfma_scale_f32_16x16x128_f8f6f4",  kMfma, 16, 16, 128,  1, kF8f6f4, kF8f6f4, kF32, {0, 0, 16,  0,  0}},

    {"wmma_f32_16x16x16_f16_w32",        kW11,  16, 16,  16,  1, kF16,  kF16,  kF32, { 0,  0,  0, 32,  0}},
    {"wmma_f32_16x16x16_bf16_w32",       kW11,  16, 16,  16,  1, kBf16, kBf16, kF32, { 0,  0,  0, 32,  0}},
    {"wmma_f16_16x16x16_f16_w32",        kW11,  16, 16,  16,  1, kF16,  kF16,  kF16, { 0,  0,  0, 32,  0}},
    {"wmma_bf16_16x16x16_bf16_w32",      kW11,  16, 16,  16,  1, kBf16, kBf16, kBf16, {0,  0,  0, 32,  0}},
    {"wmma_f16_16x16x16_f16_tied_w32",   kW11,  16, 16,  16,  1, kF16,  kF16,  kF16, { 0,  0,  0, 32,  0}},
    {"wmma_bf16_16x16x16_bf16_tied_w32", kW11,  16, 16,  16,  1, kBf16, kBf16, kBf16, {0,  0,  0, 32,  0}},
    {"wmma_i32_16x16x16_iu8_w32",        kW11,  16, 16,  16,  1, kIu8,  kIu8,  kI32, { 0,  0,  0, 32,  0}},
    {"wmma_i32_16x16x16_iu4_w32",        kW11,  16, 16,  16,  1, kIu4,  kIu4,  kI32, { 0,  0,  0, 16,  0}},
    {"wmma_f32_16x16x16_f16_w32_gfx12",     kW12, 16, 16, 16, 1, kF16,  kF16,  kF32, { 0,  0,  0,  0, 16}},
    {"wmma_f32_16x16x16_bf16_w32_gfx12",    kW12, 16, 16, 16, 1, kBf16, kBf16, kF32, { 0,  0,  0,  0, 16}},
    {"wmma_f16_16x16x16_f16_w32_gfx12",     kW12, 16, 16, 16, 1, kF16,  kF16,  kF16, { 0,  0,  0,  0, 16}},
    {"wmma_bf16_16x16x16_bf16_w32_gfx12",   kW12, 16, 16, 16, 1, kBf16, kBf16, kBf16, {0,  0,  0,  0, 16}},
    {"wmma_i32_16x16x16_iu8_w32_gfx12",     kW12, 16, 16, 16, 1, kIu8,  kIu8,  kI32, { 0,  0,  0,  0,  8}},
    {"wmma_i32_16x16x16_iu4_w32_gfx12",     kW12, 16, 16, 16, 1, kIu4,  kIu4,  kI32, { 0,  0,  0,  0,  8}},
    {"wmma_i32_16x16x32_iu4_w32_gfx12",     kW12, 16, 16, 32, 1, kIu4,  kIu4,  kI32, { 0,  0,  0,  0,  8}},
    {"wmma_f32_16x16x16_fp8_fp8_w32_gfx12", kW12, 16, 16, 16, 1, kF8,   kF8,   kF32, { 0,  0,  0,  0,  8}},
    {"wmma_f32_16x16x16_fp8_bf8_w32_gfx12", kW12, 16, 16, 16, 1, kF8,   kB8,   kF32, { 0,  0,  0,  0,  8}},
    {"wmma_f32_16x16x16_bf8_fp8_w32_gfx12", kW12, 16, 16, 16, 1, kB8,   kF8,   kF32, { 0,  0,  0,  0,  8}},
    {"wmma_f32_16x16x16_bf8_bf8_w32_gfx12", kW12, 16, 16, 16, 1, kB8,   kB8,   kF32, { 0,  0,  0,  0,  8}},
};
// clang-format on
inline constexpr int kCount = static_cast<int>(sizeof(kRows) / sizeof(kRows[0]));
}  // namespace matrix_rows

// Which row of the table a builtin is, -1 if none: `multiply<matrix_row("mfma_f32_32x32x8f16"), kTarget>(...)`.
constexpr int matrix_row(const char* name) {
  for (int row = 0; row < matrix_rows::kCount; ++row) {
    const char* p = matrix_rows::kRows[row].name;
    const char* q = name;
    while (*p != 0 && *p == *q) ++p, ++q;
    if (*p == 0 && *q == 0) return row;
  }
  return -1;
}

// cbsz, abid, blgp of MFMA; what WMMA takes instead.
struct MatrixModifiers {
  int cbsz = 0, abid = 0, blgp = 0;
  bool a_signed = true, b_signed = true;  // iu8, iu4
  bool clamp = false;                     // integer results saturate
  bool opsel = false;                     // 16-bit results of gfx11: in the upper halves
};

// Whether the instruction takes them. Binders refuse what it does not: the hardware's answer is not documented.
constexpr bool takes(const MatrixInstruction& row, MatrixTarget target, const MatrixModifiers& m) {
  const bool is_integer = row.a == MatrixElement::kIu8 || row.a == MatrixElement::kIu4;
  if (!is_integer && (!m.a_signed || !m.b_signed || m.clamp)) return false;
  if (m.opsel && !(row.layout == MatrixLayout::kWmma11 && bits_of(row.d) == 16)) return false;
  if (m.cbsz == 0 && m.abid == 0 && m.blgp == 0) return true;
  if (!row.broadcasts(target) || m.blgp < 0 || m.blgp > 7 || m.cbsz < 0 || m.abid < 0) return false;
  return 1 << m.cbsz <= row.blocks && m.abid < 1 << m.cbsz;
}

}  // namespace tilewright::emu
