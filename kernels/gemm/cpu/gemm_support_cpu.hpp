// SPDX-License-Identifier: MIT
// The functions that every instance of a target has in common: epilogue and packing, half of what a compile takes. The
// library carries them compiled (TILEWRIGHT_SUPPORT_UNIT, one object a target, with the JIT's own flags); what the JIT
// compiles is linked with that object (TILEWRIGHT_LINKED_SUPPORT). Without either macro they are ordinary templates.
#pragma once

#include "gemm/cpu/gemm_epilogue_rows_cpu.hpp"
#include "gemm/cpu/gemm_pack_cpu.hpp"
#include "gemm/cpu/gemm_widen_cpu.hpp"

#if defined(TILEWRIGHT_SUPPORT_UNIT)
#define TILEWRIGHT_SUPPORT template
#elif defined(TILEWRIGHT_LINKED_SUPPORT)
#define TILEWRIGHT_SUPPORT extern template
#endif

#if defined(TILEWRIGHT_SUPPORT)
namespace tilewright {
inline namespace TILEWRIGHT_ISA {

// A function is named by its own type: its parameters stand in one place.
TILEWRIGHT_SUPPORT decltype(gemm_epilogue<false>) gemm_epilogue<false>;
TILEWRIGHT_SUPPORT decltype(gemm_epilogue<true>) gemm_epilogue<true>;

TILEWRIGHT_SUPPORT decltype(pack_panels<DType::kF32>) pack_panels<DType::kF32>;
TILEWRIGHT_SUPPORT decltype(pack_panels<DType::kBf16>) pack_panels<DType::kBf16>;
TILEWRIGHT_SUPPORT decltype(pack_panels<DType::kF16>) pack_panels<DType::kF16>;
TILEWRIGHT_SUPPORT decltype(pack_panels<DType::kI8>) pack_panels<DType::kI8>;

#if TILEWRIGHT_AVX2
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF32>) widen_lines<DType::kF32>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF16>) widen_lines<DType::kF16>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kBf16>) widen_lines<DType::kBf16>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kI8>) widen_lines<DType::kI8>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kI4>) widen_lines<DType::kI4>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kU4>) widen_lines<DType::kU4>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF4E2M1>) widen_lines<DType::kF4E2M1>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF8E4M3>) widen_lines<DType::kF8E4M3>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF8E5M2>) widen_lines<DType::kF8E5M2>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF8E4M3Fnuz>) widen_lines<DType::kF8E4M3Fnuz>;
TILEWRIGHT_SUPPORT decltype(widen_lines<DType::kF8E5M2Fnuz>) widen_lines<DType::kF8E5M2Fnuz>;
#endif
#if TILEWRIGHT_AVX512
TILEWRIGHT_SUPPORT decltype(widen_pairs<DType::kI4>) widen_pairs<DType::kI4>;
TILEWRIGHT_SUPPORT decltype(widen_pairs<DType::kU4>) widen_pairs<DType::kU4>;
TILEWRIGHT_SUPPORT decltype(widen_pairs<DType::kF4E2M1>) widen_pairs<DType::kF4E2M1>;
TILEWRIGHT_SUPPORT decltype(widen_pairs<DType::kI8>) widen_pairs<DType::kI8>;
TILEWRIGHT_SUPPORT decltype(widen_pairs<DType::kF8E4M3>) widen_pairs<DType::kF8E4M3>;
TILEWRIGHT_SUPPORT decltype(widen_pairs<DType::kF8E5M2>) widen_pairs<DType::kF8E5M2>;
#endif

// Micro-panels of A for the instructions that a target is first to have or shares with its base.
#if TILEWRIGHT_AVX512
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kF32, CpuMma::kFmaAvx512>)
    pack_a_units<DType::kF32, CpuMma::kFmaAvx512>;
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kBf16, CpuMma::kFmaAvx512>)
    pack_a_units<DType::kBf16, CpuMma::kFmaAvx512>;
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kF16, CpuMma::kFmaAvx512>)
    pack_a_units<DType::kF16, CpuMma::kFmaAvx512>;
#elif TILEWRIGHT_AVX2
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kF32, CpuMma::kFmaAvx2>) pack_a_units<DType::kF32, CpuMma::kFmaAvx2>;
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kBf16, CpuMma::kFmaAvx2>) pack_a_units<DType::kBf16, CpuMma::kFmaAvx2>;
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kF16, CpuMma::kFmaAvx2>) pack_a_units<DType::kF16, CpuMma::kFmaAvx2>;
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kI8, CpuMma::kDotI8Avx2>) pack_a_units<DType::kI8, CpuMma::kDotI8Avx2>;
#endif
#if TILEWRIGHT_AVX512_BF16
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kBf16, CpuMma::kDotBf16>) pack_a_units<DType::kBf16, CpuMma::kDotBf16>;
#endif
#if TILEWRIGHT_AVX512_VNNI
TILEWRIGHT_SUPPORT decltype(pack_a_units<DType::kI8, CpuMma::kDotI8>) pack_a_units<DType::kI8, CpuMma::kDotI8>;
#endif
#if TILEWRIGHT_AMX
TILEWRIGHT_SUPPORT decltype(pack_a_tiles<DType::kBf16>) pack_a_tiles<DType::kBf16>;
TILEWRIGHT_SUPPORT decltype(pack_a_tiles<DType::kI8>) pack_a_tiles<DType::kI8>;
TILEWRIGHT_SUPPORT class EpilogueByRows<false>;
TILEWRIGHT_SUPPORT class EpilogueByRows<true>;
#endif

}  // namespace TILEWRIGHT_ISA
}  // namespace tilewright
#endif
