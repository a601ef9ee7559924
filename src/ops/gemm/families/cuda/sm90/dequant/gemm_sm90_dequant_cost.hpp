// SPDX-License-Identifier: MIT
// Cost model of gemm_sm90_dequant: predicted seconds.
#pragma once

#include "device/device.hpp"
#include "gemm/sm90/dequant/gemm_sm90_dequant_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

double gemm_sm90_dequant_cost(const GemmProblem& problem, const DeviceSpec& device,
                              const GemmSm90DequantConfig& config);

}  // namespace tilewright
