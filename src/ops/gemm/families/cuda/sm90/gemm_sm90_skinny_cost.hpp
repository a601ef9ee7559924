// SPDX-License-Identifier: MIT
// Cost model of gemm_sm90_skinny: predicted seconds.
#pragma once

#include "device/device.hpp"
#include "gemm/sm90/skinny/gemm_sm90_skinny_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

double gemm_sm90_skinny_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmSm90SkinnyConfig& config);

}  // namespace tilewright
