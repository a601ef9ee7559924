// SPDX-License-Identifier: MIT
// Kernels of x86-64-v3: AVX2.
#include "op/instances/kernel_table.hpp"

namespace tilewright {

const KernelTarget& kernels_v3() {
  using enum DType;
  using enum CpuMma;
  static constexpr KernelUnderTest rows[] = {
      gemm_row<GemmCpuConfig{kF32, kFmaAvx2, 6, 16, 0}>(),
      gemm_row<GemmCpuConfig{kF16, kFmaAvx2, 6, 16, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kFmaAvx2, 5, 16, 0}>(),
      gemm_row<GemmCpuConfig{kF32, kFmaAvx2, 2, 32, 8}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8Avx2, 6, 16, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx2, true, 4, 1, 0}>(),
      gemv_row<GemvCpuConfig{kBf16, kFmaAvx2, true, 1, 4, 16}>(),
      gemv_row<GemvCpuConfig{kF16, kFmaAvx2, true, 2, 2, 0}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8Avx2, true, 4, 1, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx2, false, 1, 4, 8}>(),
      gemv_row<GemvCpuConfig{kBf16, kFmaAvx2, false, 4, 1, 0}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8Avx2, false, 2, 2, 0}>(),
      dequant_row<GemmDequantCpuConfig{kF32, kFmaAvx2, 6, 16, false}>(),
      dequant_row<GemmDequantCpuConfig{kF32, kFmaAvx2, 2, 32, false}>(),
      dequant_row<GemmDequantCpuConfig{kI8, kDotI8Avx2, 4, 16, true}>(),
  };
  static constexpr KernelTarget target = make_target("x86-64-v3", "v3", rows);
  return target;
}

}  // namespace tilewright
