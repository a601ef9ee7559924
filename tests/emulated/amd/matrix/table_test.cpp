// SPDX-License-Identifier: MIT
// The table of matrix instructions against what the rest of the library knows: the builtins' operand types, and the rates
// of src/arch/arch_specs.json.
#include <gmock/gmock.h>

#include <set>

#include "arch/arch_spec.hpp"
#include "tile/emu/matrix/table.hpp"

namespace tilewright::emulated {
namespace {

using emu::matrix_row;
using emu::MatrixElement;
using emu::MatrixInstruction;
using emu::MatrixLayout;
using emu::MatrixTarget;
using emu::matrix_rows::kRows;

constexpr std::string_view kTargetNames[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

TEST(EmulatedMatrixTable, EveryNameIsFoundAndNoOther) {
  std::set<std::string> names;
  int row = 0;
  for (const MatrixInstruction& instruction : kRows) {
    EXPECT_EQ(matrix_row(instruction.name), row++);
    EXPECT_TRUE(names.insert(instruction.name).second) << instruction.name;
  }
  EXPECT_EQ(matrix_row("mfma_f32_32x32x8f1"), -1);
  EXPECT_EQ(matrix_row("mfma_f32_32x32x8f166"), -1);
  EXPECT_EQ(matrix_row(""), -1);
}

// 32-bit registers of a lane by the vector types that clang's builtins take (BuiltinsAMDGPU.def).
TEST(EmulatedMatrixTable, RegistersAreThoseOfTheBuiltinsTypes) {
  const auto expect = [](const char* name, int a, int b, int d) {
    const MatrixInstruction& row = kRows[matrix_row(name)];
    EXPECT_EQ(row.a_registers(), a) << name;
    EXPECT_EQ(row.b_registers(), b) << name;
    EXPECT_EQ(row.d_registers(), d) << name;
  };
  expect("mfma_f32_32x32x1f32", 1, 1, 32);
  expect("mfma_f32_4x4x1f32", 1, 1, 4);
  expect("mfma_f32_32x32x2bf16", 1, 1, 32);      // v2i16
  expect("mfma_f32_16x16x8bf16", 1, 1, 4);       // v2i16
  expect("mfma_f32_4x4x4bf16_1k", 2, 2, 4);      // v4i16
  expect("mfma_f32_32x32x8f16", 2, 2, 16);       // v4f16
  expect("mfma_i32_16x16x16i8", 1, 1, 4);        // i32
  expect("mfma_i32_32x32x16_i8", 2, 2, 16);      // i64
  expect("mfma_f32_16x16x8_xf32", 2, 2, 4);      // v2f32
  expect("mfma_f64_16x16x4f64", 2, 2, 8);        // f64
  expect("mfma_f64_4x4x4f64", 2, 2, 2);          // f64
  expect("mfma_f32_16x16x32_fp8_bf8", 2, 2, 4);  // i64
  expect("mfma_f32_16x16x32_bf16", 4, 4, 4);     // v8bf16
  expect("mfma_i32_32x32x32_i8", 4, 4, 16);      // v4i32
  expect("mfma_scale_f32_16x16x128_f8f6f4", 8, 8, 4);
  expect("mfma_scale_f32_32x32x64_f8f6f4", 8, 8, 16);
  expect("wmma_f32_16x16x16_f16_w32", 8, 8, 8);    // v16f16
  expect("wmma_bf16_16x16x16_bf16_w32", 8, 8, 8);  // C and D v16i16
  expect("wmma_i32_16x16x16_iu8_w32", 4, 4, 8);
  expect("wmma_i32_16x16x16_iu4_w32", 2, 2, 8);
  expect("wmma_f32_16x16x16_bf16_w32_gfx12", 4, 4, 8);  // v8i16
  expect("wmma_f16_16x16x16_f16_w32_gfx12", 4, 4, 4);   // C and D v8f16
  expect("wmma_i32_16x16x16_iu8_w32_gfx12", 2, 2, 8);
  expect("wmma_i32_16x16x16_iu4_w32_gfx12", 1, 1, 8);
  expect("wmma_i32_16x16x32_iu4_w32_gfx12", 2, 2, 8);
  expect("wmma_f32_16x16x16_fp8_bf8_w32_gfx12", 2, 2, 8);
}

DType dtype_of(MatrixElement e, std::string_view fp8) {
  switch (e) {
    case MatrixElement::kF32: return DType::kF32;
    case MatrixElement::kF16: return DType::kF16;
    case MatrixElement::kBf16: return DType::kBf16;
    case MatrixElement::kI8:
    case MatrixElement::kIu8: return DType::kI8;
    case MatrixElement::kI32: return DType::kI32;
    case MatrixElement::kF8: return fp8 == "e4m3fnuz" ? DType::kF8E4M3Fnuz : DType::kF8E4M3;
    case MatrixElement::kB8: return fp8 == "e4m3fnuz" ? DType::kF8E5M2Fnuz : DType::kF8E5M2;
    default: return DType::kNone;
  }
}

// A unit has four matrix pipes on CDNA and two on RDNA; its rate follows from operations and cycles.
TEST(EmulatedMatrixTable, CyclesGiveTheRatesOfArchSpecs) {
  int found = 0;
  for (int t = 0; t < emu::kMatrixTargets; ++t) {
    const ArchSpec* spec = find_arch(kTargetNames[t]);
    ASSERT_NE(spec, nullptr);
    for (const MmaSpec& mma : spec->mma) {
      for (const MatrixInstruction& row : kRows) {
        if (!row.on(static_cast<MatrixTarget>(t)) || row.blocks != 1 || row.a != row.b) continue;
        if (row.m != mma.m || row.n != mma.n || row.k != mma.k) continue;
        if (dtype_of(row.a, spec->fp8) != mma.input || dtype_of(row.d, spec->fp8) != mma.accumulator) continue;
        const int pipes = row.layout == MatrixLayout::kMfma ? 4 : 2;
        EXPECT_EQ(static_cast<double>(row.operations()) * pipes / row.cycles[t], mma.ops_per_cycle)
            << row.name << " on " << spec->target;
        ++found;
      }
    }
  }
  EXPECT_GE(found, 35);
}

}  // namespace
}  // namespace tilewright::emulated
