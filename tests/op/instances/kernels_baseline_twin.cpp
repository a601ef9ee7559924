// SPDX-License-Identifier: MIT
// Kernels without any flags: SSE2 vectors, dot and tile instructions through their twins.
#include "op/instances/kernel_table.hpp"

namespace tilewright {

const KernelTarget& kernels_baseline() {
  using enum DType;
  using enum CpuMma;
  static constexpr KernelUnderTest rows[] = {
      generic_row(),
      gemm_row<GemmCpuConfig{kF32, kFmaAvx2, 6, 16, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kDotBf16, 6, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8, 6, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8Avx2, 4, 16, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kAmxI8, 16, 16, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx2, true, 2, 2, 0}>(),
      gemv_row<GemvCpuConfig{kBf16, kDotBf16, false, 2, 2, 0}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8, false, 2, 4, 0}>(),
  };
  static constexpr KernelTarget target = make_target("", "baseline", rows);
  return target;
}

}  // namespace tilewright
