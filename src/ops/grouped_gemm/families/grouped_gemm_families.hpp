// SPDX-License-Identifier: MIT
// The kernel families behind grouped_gemm, one line each, and what they share.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {

const KernelFamily& grouped_gemm_cpu_family();          // gemm_cpu, group after group
const KernelFamily& grouped_gemm_generic_family();      // typed at run time, always built, every valid problem
const KernelFamily& grouped_gemm_generic_gpu_family();  // the same for GPUs

// A GEMM of as much work: what cost models of gemm are asked.
GemmProblem equal_work(const GroupedGemmProblem& problem);

// The stage of a kernel that takes GroupedGemmArgs. `grid`: GemmArgs::block_m.
Stage grouped_gemm_stage(const GroupedGemmProblem& problem, int64_t grid, uint32_t units,
                         std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
