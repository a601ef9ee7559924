// SPDX-License-Identifier: MIT
// The kernels that tests/op/gemm_kernel_*_test.cpp run: one table a target, each from a unit compiled with that target's
// flags (tests/op/kernels_*.cpp). Nothing here may be instantiated in two of those units: it is data only.
#pragma once

#include "gemm/cpu/gemm_dequant_cpu_blocking.hpp"
#include "gemm/gemm_args.hpp"

namespace tilewright {

enum class KernelKind : unsigned char { kGemm, kGemv, kDequant, kGeneric };

struct KernelUnderTest {
  KernelKind kind;
  GemmCpuConfig gemm;
  GemvCpuConfig gemv;
  void (*entry)(const void* args, unsigned unit, unsigned units);
  GemmDequantCpuConfig dequant = {};
};

// What a unit of a target offers. The vector functions run over `count` elements, a multiple of 16.
struct KernelTarget {
  const char* target;  // "" = runs on every CPU
  const char* label;
  const KernelUnderTest* kernels;
  int count;
  void (*pack)(const void* pack_args, unsigned unit, unsigned units);
  void (*apply)(int function, const float* in, float* out, long count);
};

// The functions that `apply` knows.
enum VectorFunction : int {
  kExp,
  kExpBelowOne,
  kTanh,
  kSigmoid,
  kSilu,
  kGelu,
  kGeluTanh,
  kRoundBf16,
  kRoundF16,
  kStreamBf16,
  kStreamF16
};

const KernelTarget& kernels_baseline();  // no flags: every mma through the twins
const KernelTarget& kernels_v3();        // AVX2
const KernelTarget& kernels_v3_twin();   // AVX2 and the AMX twin
const KernelTarget& kernels_v4();        // AVX-512
const KernelTarget& kernels_dot();       // AVX512-BF16, AVX512-VNNI
const KernelTarget& kernels_amx();       // AMX, where the compiler knows it

}  // namespace tilewright
