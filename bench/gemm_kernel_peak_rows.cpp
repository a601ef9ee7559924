// SPDX-License-Identifier: MIT
// One table of kernels; which one follows from the flags of this compilation. TILEWRIGHT_PEAK_ROWS names its function.
#include "gemm_kernel_peak_rows.hpp"

#include "gemm/cpu/gemm_cpu.hpp"
#include "gemm/cpu/gemm_support_cpu.hpp"
#include "gemm/cpu/gemv_cpu.hpp"

namespace tilewright {
inline namespace TILEWRIGHT_ISA {

template <GemmCpuConfig kConfig>
PeakRow gemm_row() {
  return {false, kConfig, {}, [](const void* args, unsigned unit, unsigned units) {
            gemm_cpu<kConfig>(*static_cast<const GemmArgs*>(args), unit, units);
          }};
}
template <GemvCpuConfig kConfig>
PeakRow gemv_row() {
  return {true, {}, kConfig, [](const void* args, unsigned unit, unsigned units) {
            gemv_cpu<kConfig>(*static_cast<const GemmArgs*>(args), unit, units);
          }};
}

inline void pack_entry(const void* args, unsigned unit, unsigned units) {
  gemm_pack_cpu(*static_cast<const GemmPackArgs*>(args), unit, units);
}

}  // namespace TILEWRIGHT_ISA

const PeakTable& TILEWRIGHT_PEAK_ROWS() {
  using enum DType;
  using enum CpuMma;
  static const PeakRow rows[] = {
#if TILEWRIGHT_AMX
      gemm_row<GemmCpuConfig{kBf16, kAmxBf16, 32, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kAmxI8, 32, 32, 0}>(),
#elif TILEWRIGHT_AVX512_BF16
      gemm_row<GemmCpuConfig{kBf16, kDotBf16, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8, 14, 32, 0}>(),
      gemv_row<GemvCpuConfig{kBf16, kDotBf16, true, 1, 1, 48}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8, true, 1, 1, 48}>(),
      gemv_row<GemvCpuConfig{kBf16, kDotBf16, false, 1, 1, 48}>(),
      gemv_row<GemvCpuConfig{kI8, kDotI8, false, 1, 1, 48}>(),
#elif TILEWRIGHT_AVX512
      gemm_row<GemmCpuConfig{kF32, kFmaAvx512, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kBf16, kFmaAvx512, 14, 32, 0}>(),
      gemm_row<GemmCpuConfig{kF16, kFmaAvx512, 14, 32, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx512, true, 1, 1, 48}>(),
      gemv_row<GemvCpuConfig{kBf16, kFmaAvx512, true, 1, 1, 48}>(),
      gemv_row<GemvCpuConfig{kF16, kFmaAvx512, true, 1, 1, 48}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx512, false, 1, 2, 48}>(),
      gemv_row<GemvCpuConfig{kBf16, kFmaAvx512, false, 1, 1, 48}>(),
#else
      gemm_row<GemmCpuConfig{kF32, kFmaAvx2, 6, 16, 0}>(),
      gemm_row<GemmCpuConfig{kI8, kDotI8Avx2, 6, 16, 0}>(),
      gemv_row<GemvCpuConfig{kF32, kFmaAvx2, true, 1, 1, 48}>(),
#endif
  };
  constexpr int kCount = sizeof(rows) / sizeof(rows[0]);
  static const PeakTable table = {TILEWRIGHT_PEAK_TARGET, rows, kCount, pack_entry};
  return table;
}

}  // namespace tilewright
