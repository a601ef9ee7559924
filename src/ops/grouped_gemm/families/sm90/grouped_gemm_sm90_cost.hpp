// SPDX-License-Identifier: MIT
// Cost model of grouped_gemm_sm90: predicted seconds.
#pragma once

#include "device/device.hpp"
#include "grouped_gemm/sm90/grouped_sm90_args.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {

double grouped_gemm_sm90_cost(const GroupedGemmProblem& problem, const DeviceSpec& device,
                              const GroupedGemmSm90Config& config, bool counted);

}  // namespace tilewright
