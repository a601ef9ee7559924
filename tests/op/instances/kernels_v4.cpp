// SPDX-License-Identifier: MIT
// Kernels of x86-64-v4: AVX-512.
#include "op/instances/kernel_table.hpp"

namespace tilewright {

const KernelTarget& kernels_v4() {
  using enum DType;
  using enum CpuMma;
  static constexpr KernelUnderTest rows[] = {
      gemm_row<GemmCpuConfig{kF32, kFmaAvx512, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kF32, kFmaAvx512, 8, 48, 8}>(),
      gemm_row<GemmCpuConfig{kF32, kFmaAvx512, 28, 16, 0}>(),
      gemm_row<GemmCpuConfig{kF32, kFmaAvx512, 6, 64, 0}>(),
      gemm_row<GemmCpuConfig{kF16, kFmaAvx512, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kFmaAvx512, 13, 32, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx512, true, 4, 4, 0}>(),
      gemv_row<GemvCpuConfig{kF16, kFmaAvx512, true, 1, 8, 16}>(),
      gemv_row<GemvCpuConfig{kBf16, kFmaAvx512, true, 8, 2, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx512, false, 4, 4, 0}>(),
      gemv_row<GemvCpuConfig{kF16, kFmaAvx512, false, 1, 8, 8}>(),
      gemv_row<GemvCpuConfig{kBf16, kFmaAvx512, false, 16, 1, 0}>(),
      dequant_row<GemmDequantCpuConfig{kF32, kFmaAvx512, 14, 32, false}>(),
      dequant_row<GemmDequantCpuConfig{kF32, kFmaAvx512, 8, 48, false}>(),
  };
  static constexpr KernelTarget target = make_target("x86-64-v4", "v4", rows);
  return target;
}

}  // namespace tilewright
