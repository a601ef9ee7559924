// SPDX-License-Identifier: MIT
// Kernels that use the AMX tiles themselves.
#include "op/instances/kernel_table.hpp"

namespace tilewright {

const KernelTarget& kernels_amx() {
  using enum DType;
  using enum CpuMma;
  static constexpr KernelUnderTest rows[] = {
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 32, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kAmxI8, 32, 32, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 16, 64, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kAmxI8, 16, 48, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 48, 16, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 16, 96, 0}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kAmxBf16, 32, 32, false}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kAmxBf16, 32, 32, true}>(),
      dequant_row<GemmDequantCpuConfig{kI8, kAmxI8, 32, 32, true}>(),
      dequant_row<GemmDequantCpuConfig{kBf16, kAmxBf16, 16, 64, true}>(),
  };
  static constexpr KernelTarget target = make_target("x86-64-v4-amx", "amx", rows);
  return target;
}

}  // namespace tilewright
