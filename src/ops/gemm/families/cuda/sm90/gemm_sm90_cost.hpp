// SPDX-License-Identifier: MIT
// Cost model of gemm_sm90: predicted seconds. What was measured stands in docs/kernels/gemm_sm90.md.
#pragma once

#include "device/device.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// The wgmma of the target that multiplies so with N = `n`; null when there is none. f32 stands for tf32.
const MmaSpec* sm90_wgmma(const ArchSpec& arch, DType dtype, int n);

double gemm_sm90_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmSm90Config& config, int split);

}  // namespace tilewright
