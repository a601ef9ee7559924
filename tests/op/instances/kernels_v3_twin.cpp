// SPDX-License-Identifier: MIT
// AMX, AVX512-BF16 and VNNI kernels through their twins, on AVX2: what a CPU without those instructions can check.
#include "op/instances/kernel_table.hpp"

namespace tilewright {

const KernelTarget& kernels_v3_twin() {
  using enum DType;
  using enum CpuMma;
  static constexpr KernelUnderTest rows[] = {
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 32, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kAmxI8, 32, 32, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 16, 64, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kAmxI8, 16, 48, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 48, 16, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kDotBf16, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8, 14, 32, 0}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kAmxBf16, 32, 32, false}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kAmxBf16, 32, 32, true}>(),
      dequant_row<GemmDequantCpuConfig{kI8, kAmxI8, 16, 48, true}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kDotBf16, 14, 32, true}>(),
      dequant_row<GemmDequantCpuConfig{kI8, kDotI8, 14, 32, true}>(),
  };
  static constexpr KernelTarget target = make_target("x86-64-v3", "v3_twin", rows);
  return target;
}

}  // namespace tilewright
