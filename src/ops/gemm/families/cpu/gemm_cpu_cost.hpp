// SPDX-License-Identifier: MIT
// Cost models of the CPU families: predicted seconds, good enough to rank candidates. Pure functions of problem, device
// and choice; the tuner measures what matters.
#pragma once

#include "arch/arch_spec.hpp"
#include "device/device.hpp"
#include "gemm/cpu/gemm_dequant_cpu_blocking.hpp"
#include "gemm/cpu/gemv_dequant_packed_cpu_blocking.hpp"
#include "ops/gemm/families/gemm_stage.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

double gemm_cpu_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmCpuConfig& config,
                     const GemmKnobs& knobs);
double gemm_dequant_cpu_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmDequantCpuConfig& config);
double gemv_cpu_cost(const GemmProblem& problem, const DeviceSpec& device, const GemvCpuConfig& config);
double gemv_dequant_cpu_cost(const GemmProblem& problem, const DeviceSpec& device, const GemvDequantCpuConfig& config);
double gemv_dequant_packed_cpu_cost(const GemmProblem& problem, const DeviceSpec& device,
                                    const GemvDequantPackedCpuConfig& config);
double gemm_generic_cost(const GemmProblem& problem, const DeviceSpec& device);

// The instructions that can multiply `dtype` on the device, best first, each with the lowest target that has it.
struct CpuMmaChoice {
  CpuMma mma;
  const MmaSpec* spec;
  const ArchSpec* arch;
};
std::vector<CpuMmaChoice> cpu_mma_choices(const DeviceSpec& device, DType dtype);
// The same for one target's own code: what it introduces.
std::vector<CpuMma> cpu_mma_introduced(std::string_view target, DType dtype);

}  // namespace tilewright
