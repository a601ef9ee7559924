// SPDX-License-Identifier: MIT
// Cost models of the CUDA families that run everywhere: predicted seconds, good enough to rank candidates.
#pragma once

#include "device/device.hpp"
#include "gemm/portable/gemm_portable_shape.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// `block_k`: columns of K in a split, 0 = all.
double gemm_portable_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmPortableConfig& config,
                          int64_t block_k);
double gemm_generic_gpu_cost(const GemmProblem& problem, const DeviceSpec& device);

// The instruction of the target that multiplies so; null when there is none. 8-bit floats are multiplied as f16.
const MmaSpec* portable_mma(const ArchSpec& arch, DType dtype, PortableMma mma);

}  // namespace tilewright
