// SPDX-License-Identifier: MIT
// Cost model of gemm_sm90: predicted seconds. What was measured stands in docs/kernels/gemm_sm90.md.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "device/device.hpp"
#include "gemm/sm90/gemm_sm90_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// The wgmma of the target that multiplies so with N = `n`; null when there is none. f32 stands for tf32.
const MmaSpec* sm90_wgmma(const ArchSpec& arch, DType dtype, int n);

// `wgmma` with what it does besides: rounds to tf32; of 8-bit floats sums tiles of K apart, or cuts sums to fewer bits.
std::string sm90_order(DType dtype, bool promote, std::string_view wgmma);
// The values of `promote` that may serve the problem, the fastest first.
std::span<const bool> sm90_promotions(const GemmProblem& problem);
// Ok, or why a kernel that promotes, or does not, cannot serve the problem.
Status check_sm90_promotion(const GemmProblem& problem, bool promote);

double gemm_sm90_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmSm90Config& config, int split);

}  // namespace tilewright
