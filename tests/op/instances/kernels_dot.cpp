// SPDX-License-Identifier: MIT
// Kernels of x86-64-v4 with AVX512-BF16 and AVX512-VNNI.
#include "op/instances/kernel_table.hpp"

namespace tilewright {

const KernelTarget& kernels_dot() {
  using enum DType;
  using enum CpuMma;
  static constexpr KernelUnderTest rows[] = {
      gemm_row<GemmCpuConfig{kBf16, kDotBf16, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kDotBf16, 8, 48, 8}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8, 6, 64, 0}>(),
      gemv_row<GemvCpuConfig{kBf16, kDotBf16, true, 4, 4, 0}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8, true, 1, 8, 16}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8, true, 4, 4, 0}>(),
      gemv_row<GemvCpuConfig{kBf16, kDotBf16, false, 4, 4, 8}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8, false, 8, 2, 0}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kDotBf16, 14, 32, false}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kDotBf16, 14, 32, true}>(),
      dequant_row<GemmDequantCpuConfig{kI8, kDotI8, 14, 32, true}>(),
      dequant_row<GemmDequantCpuConfig{kI8, kDotI8, 6, 64, true}>(),
  };
  static constexpr KernelTarget target = make_target("x86-64-v4-bf16", "dot", rows);
  return target;
}

}  // namespace tilewright
