// SPDX-License-Identifier: MIT
// Cost model of gemv_dequant_gpu: predicted seconds.
#pragma once

#include "device/device.hpp"
#include "gemm/portable/dequant/gemv_dequant_gpu_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

double gemv_dequant_gpu_cost(const GemmProblem& problem, const DeviceSpec& device, const GemvDequantGpuConfig& config);

}  // namespace tilewright
