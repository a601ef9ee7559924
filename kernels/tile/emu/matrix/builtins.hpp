// SPDX-License-Identifier: MIT
// clang's builtins of matrix instructions, over the table and the functions of this folder. What a target does not have,
// or modifiers that the instruction does not take, is a compile error.
#pragma once

#include "tile/emu/matrix/registers.hpp"
#include "tile/emu/matrix/scaled.hpp"
#include "tile/emu/runtime.hpp"

namespace tilewright::emu {

#if defined(__gfx90a__)
inline constexpr MatrixTarget kMatrixTarget = MatrixTarget::kGfx90a;
#elif defined(__gfx942__)
inline constexpr MatrixTarget kMatrixTarget = MatrixTarget::kGfx942;
#elif defined(__gfx950__)
inline constexpr MatrixTarget kMatrixTarget = MatrixTarget::kGfx950;
#elif defined(__gfx1100__)
inline constexpr MatrixTarget kMatrixTarget = MatrixTarget::kGfx1100;
#elif defined(__gfx1201__)
inline constexpr MatrixTarget kMatrixTarget = MatrixTarget::kGfx1201;
#else
#error "no matrix instructions are known of this target"
#endif

// What a lane hands in. The result replaces C.
template <class A, class B, class C>
struct MatrixOperands {
  A a;
  B b;
  C c;
};

template <int kRow, MatrixModifiers kModifiers, class A, class B, class C>
TILEWRIGHT_EMU_PLAIN static void multiply_wave(WaveView* view) {
  if (!require_whole_wave(view, matrix_rows::kRows[kRow].name, nullptr)) return;
  A a[kWaveSize];
  B b[kWaveSize];
  C c[kWaveSize];
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    const auto& operands = operands_of<MatrixOperands<A, B, C>>(view, lane);
    __builtin_memcpy(&a[lane], &operands.a, sizeof(A));
    __builtin_memcpy(&b[lane], &operands.b, sizeof(B));
    __builtin_memcpy(&c[lane], &operands.c, sizeof(C));
  }
  require_written_operands<kRow>(view, a, b, c);
  multiply<kRow, kMatrixTarget>(a, b, c, c, kModifiers);
  note_results(c);
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    __builtin_memcpy(&operands_of<MatrixOperands<A, B, C>>(view, lane).c, &c[lane], sizeof(C));
  }
}

template <int kRow, MatrixModifiers kModifiers, class A, class B, class C>
TILEWRIGHT_EMU_INSTRUCTION C matrix_instruction(A a, B b, C c) {
  static_assert(kRow >= 0 && matrix_rows::kRows[kRow].on(kMatrixTarget), "the target has no such instruction");
  static_assert(takes(matrix_rows::kRows[kRow], kMatrixTarget, kModifiers), "the instruction takes no such modifiers");
  MatrixOperands<A, B, C> operands{a, b, c};
  meet(operands, multiply_wave<kRow, kModifiers, A, B, C>, TILEWRIGHT_EMU_SITE);
  return operands.c;
}

// f8f6f4: formats and the bytes of the scales' words as clang's arguments.
struct ScaledModifiers {
  int cbsz = 0, blgp = 0, opsel_a = 0, opsel_b = 0;
};
template <class A, class B, class C>
struct ScaledOperands {
  A a;
  B b;
  C c;
  int scale_a, scale_b;
};

template <int kRow, ScaledModifiers kModifiers, class A, class B, class C>
TILEWRIGHT_EMU_PLAIN static void multiply_scaled_wave(WaveView* view) {
  if (!require_whole_wave(view, matrix_rows::kRows[kRow].name, nullptr)) return;
  A a[kWaveSize];
  B b[kWaveSize];
  C c[kWaveSize];
  uint32_t scale_a[kWaveSize], scale_b[kWaveSize];
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    const auto& operands = operands_of<ScaledOperands<A, B, C>>(view, lane);
    __builtin_memcpy(&a[lane], &operands.a, sizeof(A));
    __builtin_memcpy(&b[lane], &operands.b, sizeof(B));
    __builtin_memcpy(&c[lane], &operands.c, sizeof(C));
    scale_a[lane] = static_cast<uint32_t>(operands.scale_a);
    scale_b[lane] = static_cast<uint32_t>(operands.scale_b);
  }
  require_written_operands<kRow>(view, a, b, c);
  multiply_scaled<kRow, static_cast<F8f6f4>(kModifiers.cbsz), static_cast<F8f6f4>(kModifiers.blgp)>(
      a, b, c, c, scale_a, kModifiers.opsel_a, scale_b, kModifiers.opsel_b);
  note_results(c);
  for (uint32_t lane = 0; lane < kWaveSize; ++lane) {
    __builtin_memcpy(&operands_of<ScaledOperands<A, B, C>>(view, lane).c, &c[lane], sizeof(C));
  }
}

template <int kRow, ScaledModifiers kModifiers, class A, class B, class C>
TILEWRIGHT_EMU_INSTRUCTION C scaled_instruction(A a, B b, C c, int scale_a, int scale_b) {
  static_assert(matrix_rows::kRows[kRow].on(kMatrixTarget), "the target has no such instruction");
  static_assert(kModifiers.cbsz >= 0 && kModifiers.cbsz <= 4 && kModifiers.blgp >= 0 && kModifiers.blgp <= 4,
                "formats are 0 (fp8) to 4 (fp4)");
  static_assert(kModifiers.opsel_a >= 0 && kModifiers.opsel_a <= 3 && kModifiers.opsel_b >= 0 &&
                kModifiers.opsel_b <= 3);
  ScaledOperands<A, B, C> operands{a, b, c, scale_a, scale_b};
  meet(operands, multiply_scaled_wave<kRow, kModifiers, A, B, C>, TILEWRIGHT_EMU_SITE);
  return operands.c;
}

}  // namespace tilewright::emu

#define TILEWRIGHT_EMU_MATRIX(name, ...) \
  tilewright::emu::matrix_instruction<tilewright::emu::matrix_row(#name), tilewright::emu::MatrixModifiers{__VA_ARGS__}>
#define TILEWRIGHT_EMU_MFMA(name, a, b, c, cbsz_, abid_, blgp_) \
  TILEWRIGHT_EMU_MATRIX(name, .cbsz = (cbsz_), .abid = (abid_), .blgp = (blgp_))(a, b, c)
#define TILEWRIGHT_EMU_WMMA(name, a, b, c) TILEWRIGHT_EMU_MATRIX(name)(a, b, c)
#define TILEWRIGHT_EMU_WMMA_HALF(name, a, b, c, opsel_) TILEWRIGHT_EMU_MATRIX(name, .opsel = (opsel_))(a, b, c)
#define TILEWRIGHT_EMU_WMMA_INTEGER(name, a_signed_, a, b_signed_, b, c, clamp_) \
  TILEWRIGHT_EMU_MATRIX(name, .a_signed = (a_signed_), .b_signed = (b_signed_), .clamp = (clamp_))(a, b, c)
#define TILEWRIGHT_EMU_SCALED(name, a, b, c, cbsz_, blgp_, opsel_a_, scale_a, opsel_b_, scale_b) \
  tilewright::emu::scaled_instruction<                                                           \
      tilewright::emu::matrix_row(#name),                                                        \
      tilewright::emu::ScaledModifiers{                                                          \
          .cbsz = (cbsz_), .blgp = (blgp_), .opsel_a = (opsel_a_), .opsel_b = (opsel_b_)}>(a, b, c, scale_a, scale_b)

// clang-format off
#define __builtin_amdgcn_mfma_f32_32x32x1f32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x1f32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x1f32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x1f32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_4x4x1f32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_4x4x1f32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x2f32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x4f32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x4f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x4f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x4f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x4f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_4x4x4f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_4x4x4f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x8f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x16f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x2bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x2bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x2bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x2bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_4x4x2bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_4x4x2bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x4bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x4bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x8bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x8bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x4bf16_1k(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x4bf16_1k, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x4bf16_1k(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x4bf16_1k, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_4x4x4bf16_1k(...) TILEWRIGHT_EMU_MFMA(mfma_f32_4x4x4bf16_1k, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x8bf16_1k, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x16bf16_1k, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_32x32x4i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_32x32x4i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_16x16x4i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_16x16x4i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_4x4x4i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_4x4x4i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_32x32x8i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_32x32x8i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_16x16x16i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_16x16x16i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f64_16x16x4f64(...) TILEWRIGHT_EMU_MFMA(mfma_f64_16x16x4f64, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f64_4x4x4f64(...) TILEWRIGHT_EMU_MFMA(mfma_f64_4x4x4f64, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_32x32x16_i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_32x32x16_i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_16x16x32_i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_16x16x32_i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x4_xf32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x4_xf32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x8_xf32(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x8_xf32, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x16_fp8_fp8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x16_fp8_bf8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x16_fp8_bf8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x16_bf8_fp8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x16_bf8_fp8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x16_bf8_bf8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x32_fp8_fp8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x32_fp8_bf8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x32_bf8_fp8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x32_bf8_bf8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x16_f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x16_f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x32_f16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x32_f16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_32x32x16_bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_32x32x16_bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_f32_16x16x32_bf16(...) TILEWRIGHT_EMU_MFMA(mfma_f32_16x16x32_bf16, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_32x32x32_i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_32x32x32_i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_i32_16x16x64_i8(...) TILEWRIGHT_EMU_MFMA(mfma_i32_16x16x64_i8, __VA_ARGS__)
#define __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(...) TILEWRIGHT_EMU_SCALED(mfma_scale_f32_32x32x64_f8f6f4, __VA_ARGS__)
#define __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(...) TILEWRIGHT_EMU_SCALED(mfma_scale_f32_16x16x128_f8f6f4, __VA_ARGS__)

#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_f16_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_bf16_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(...) TILEWRIGHT_EMU_WMMA_HALF(wmma_f16_16x16x16_f16_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32(...) TILEWRIGHT_EMU_WMMA_HALF(wmma_bf16_16x16x16_bf16_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f16_16x16x16_f16_tied_w32(...) TILEWRIGHT_EMU_WMMA_HALF(wmma_f16_16x16x16_f16_tied_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_bf16_16x16x16_bf16_tied_w32(...) TILEWRIGHT_EMU_WMMA_HALF(wmma_bf16_16x16x16_bf16_tied_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(...) TILEWRIGHT_EMU_WMMA_INTEGER(wmma_i32_16x16x16_iu8_w32, __VA_ARGS__)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(...) TILEWRIGHT_EMU_WMMA_INTEGER(wmma_i32_16x16x16_iu4_w32, __VA_ARGS__)

#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_f16_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_bf16_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f16_16x16x16_f16_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_bf16_16x16x16_bf16_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(...) TILEWRIGHT_EMU_WMMA_INTEGER(wmma_i32_16x16x16_iu8_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32_gfx12(...) TILEWRIGHT_EMU_WMMA_INTEGER(wmma_i32_16x16x16_iu4_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_i32_16x16x32_iu4_w32_gfx12(...) TILEWRIGHT_EMU_WMMA_INTEGER(wmma_i32_16x16x32_iu4_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_fp8_fp8_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_fp8_bf8_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_bf8_fp8_w32_gfx12, __VA_ARGS__)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(...) TILEWRIGHT_EMU_WMMA(wmma_f32_16x16x16_bf8_bf8_w32_gfx12, __VA_ARGS__)
// clang-format on
