// SPDX-License-Identifier: MIT
// How fast the micro-kernel of f32 runs by where its operands come from, beside the same instructions on registers
// (docs/kernels/gemm_cpu.md, "Why f32 stops where it does").
#pragma once

namespace tilewright {

struct FmaLimit {
  const char* name;
  // `calls` micro-kernels of kFmaLimitSteps steps of k.
  void (*run)(char* memory, long long calls);
};

inline constexpr long long kFmaLimitBytes = 32 << 20;  // of `memory`, random operands
inline constexpr long long kFmaLimitRows = 14, kFmaLimitColumns = 32, kFmaLimitSteps = 1024;

struct FmaLimits {
  const FmaLimit* limits;  // the first one on registers
  int count;
};
const FmaLimits& fma_limits();

}  // namespace tilewright
