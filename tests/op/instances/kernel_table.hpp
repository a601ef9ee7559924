// SPDX-License-Identifier: MIT
// Makes the rows of a kernel table. Included by the units that are compiled with a target's flags; everything lives in the
// target's own namespace (tile/cpu/isa.hpp). Tables are constants: what made them would run on CPUs that lack the target.
#pragma once

#include "gemm/cpu/gemm_cpu.hpp"
#include "gemm/cpu/gemm_dequant_cpu.hpp"
#include "gemm/cpu/gemm_generic.hpp"
#include "gemm/cpu/gemm_support_cpu.hpp"
#include "gemm/cpu/gemv_cpu.hpp"
#include "op/instances/kernel_under_test.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <GemmCpuConfig kConfig>
constexpr KernelUnderTest gemm_row() {
  return {KernelKind::kGemm, kConfig, {}, [](const void* args, unsigned unit, unsigned units) {
            gemm_cpu<kConfig>(*static_cast<const GemmArgs*>(args), unit, units);
          }};
}
template <GemvCpuConfig kConfig>
constexpr KernelUnderTest gemv_row() {
  return {KernelKind::kGemv, {}, kConfig, [](const void* args, unsigned unit, unsigned units) {
            gemv_cpu<kConfig>(*static_cast<const GemmArgs*>(args), unit, units);
          }};
}
template <GemmDequantCpuConfig kConfig>
constexpr KernelUnderTest dequant_row() {
  return {KernelKind::kDequant,
          {},
          {},
          [](const void* args, unsigned unit, unsigned units) {
            gemm_dequant_cpu<kConfig>(*static_cast<const GemmScaledArgs*>(args), unit, units);
          },
          kConfig};
}
constexpr KernelUnderTest generic_row() {
  return {KernelKind::kGeneric, {}, {}, [](const void* args, unsigned unit, unsigned units) {
            gemm_generic(*static_cast<const GemmScaledArgs*>(args), unit, units);
          }};
}

inline void pack_entry(const void* args, unsigned unit, unsigned units) {
  gemm_pack_cpu(*static_cast<const GemmPackArgs*>(args), unit, units);
}

// x as a line written past the caches has it, in either half; 12345 where the halves differ.
template <DType kType>
F32x16 through_streamed_line(F32x16 x) {
  alignas(64) unsigned char lines[2][64];
  const F32x16 one = F32x16::splat(1);
  stream_line<kType>(lines[0], {x, one});
  stream_line<kType>(lines[1], {one, x});
  stream_fence();
  const bool same = __builtin_memcmp(lines[0], lines[1] + 32, 32) == 0;
  return same ? load_vec<kType>(lines[0]) : F32x16::splat(12345);
}

inline void apply_vector(int function, const float* in, float* out, long count) {
  for (long i = 0; i < count; i += kVec) {
    F32x16 x = F32x16::load(in + i);
    switch (function) {
      case VectorFunction::kExp: x = exp(x); break;
      case VectorFunction::kExpBelowOne: x = exp2_below_one(x, F32x16::splat(log2_factor(1))); break;
      case VectorFunction::kTanh: x = tanh(x); break;
      case VectorFunction::kSigmoid: x = sigmoid(x); break;
      case VectorFunction::kSilu: x = silu(x); break;
      case VectorFunction::kGelu: x = gelu(x); break;
      case VectorFunction::kGeluTanh: x = gelu_tanh(x); break;
      case VectorFunction::kRoundBf16: {
        unsigned char codes[32];
        store_vec<DType::kBf16>(codes, x);
        x = load_vec<DType::kBf16>(codes);
        break;
      }
      case VectorFunction::kRoundF16: {
        unsigned char codes[32];
        store_vec<DType::kF16>(codes, x);
        x = load_vec<DType::kF16>(codes);
        break;
      }
      case VectorFunction::kStreamBf16: x = through_streamed_line<DType::kBf16>(x); break;
      case VectorFunction::kStreamF16: x = through_streamed_line<DType::kF16>(x); break;
      default: break;
    }
    x.store(out + i);
  }
}

template <int kCount>
constexpr KernelTarget make_target(const char* target, const char* label, const KernelUnderTest (&rows)[kCount]) {
  return {target, label, rows, kCount, pack_entry, apply_vector};
}

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
