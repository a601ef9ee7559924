// SPDX-License-Identifier: MIT
// The cost model of gemv_amd: predicted seconds.
#pragma once

#include "device/device.hpp"
#include "gemm/amd/gemv_amd_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// split_k: steps of tile_k in a part of K; 0 = all of them.
double gemv_amd_cost(const GemmProblem& problem, const DeviceSpec& device, const GemvAmdConfig& config,
                     int64_t split_k);

// Bytes of K that a matrix instruction, or those of a chunk, takes (MatrixStep::kDepth).
int gemv_amd_step_bytes(const ArchSpec& arch, DType dtype);
// Loads of weights by a lane in one step of its wave.
int gemv_amd_loads(const GemvAmdConfig& config, const ArchSpec& arch);
// Vector registers that a lane needs, about.
int gemv_amd_registers(const GemvAmdConfig& config, const ArchSpec& arch);
// Waves of a SIMD that registers and LDS leave room for.
int gemv_amd_waves(const GemvAmdConfig& config, const ArchSpec& arch);
// Workgroups that a CU holds at a time.
int gemv_amd_residents(const ArchSpec& arch, const GemvAmdConfig& config);

}  // namespace tilewright
