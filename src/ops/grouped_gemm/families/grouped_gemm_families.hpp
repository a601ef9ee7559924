// SPDX-License-Identifier: MIT
// The kernel families behind grouped_gemm, one line each, and what they share.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {

const KernelFamily& grouped_gemm_cpu_family();          // gemm_cpu, group after group
const KernelFamily& grouped_dequant_cpu_family();       // gemm_dequant_cpu, group after group
const KernelFamily& grouped_gemm_generic_family();      // typed at run time, always built, every valid problem
const KernelFamily& grouped_gemm_generic_gpu_family();  // the same for GPUs

const KernelFamily& grouped_gemm_sm90_family();     // wgmma and the copy engine of Hopper
const KernelFamily& grouped_sm90_dequant_family();  // Hopper: 16-bit A, weights widened in registers

// A GEMM of as much work: what cost models of gemm are asked.
GemmProblem equal_work(const GroupedGemmProblem& problem);

// What of the arguments says where groups lie, but for addresses, which go where add_group_patches() says: `offset` is that of
// the GroupArgs in the stage's arguments.
GroupArgs group_args(const GroupedGemmProblem& problem);
void add_group_patches(Stage& stage, const GroupedGemmProblem& problem, size_t offset);
// The stage of a kernel that takes GroupedGemmArgs. `grid`: GemmArgs::block_m.
Stage grouped_gemm_stage(const GroupedGemmProblem& problem, int64_t grid, uint32_t units,
                         std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
