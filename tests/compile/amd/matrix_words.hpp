// SPDX-License-Identifier: MIT
// What tests of compiled AMD kernels share: the targets, and a matrix instruction of bf16 for each.
#pragma once

namespace tilewright::test {

inline constexpr const char* kAmdTargets[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

// Operand, Sum and TW_MULTIPLY(a, b, c), in front of a kernel's source.
inline constexpr const char* kMatrixWords = R"(
#if defined(__gfx90a__) || defined(__gfx942__)
typedef short Operand __attribute__((ext_vector_type(4)));
typedef float Sum __attribute__((ext_vector_type(16)));
#define TW_MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0)
#elif defined(__gfx950__)
typedef __bf16 Operand __attribute__((ext_vector_type(8)));
typedef float Sum __attribute__((ext_vector_type(16)));
#define TW_MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, c, 0, 0, 0)
#elif defined(__gfx1100__)
typedef short Operand __attribute__((ext_vector_type(16)));
typedef float Sum __attribute__((ext_vector_type(8)));
#define TW_MULTIPLY(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)
#else
typedef __bf16 Operand __attribute__((ext_vector_type(8)));
typedef float Sum __attribute__((ext_vector_type(8)));
#define TW_MULTIPLY(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c)
#endif
)";

}  // namespace tilewright::test
