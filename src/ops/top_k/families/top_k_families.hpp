// SPDX-License-Identifier: MIT
// The kernel families behind top_k, and the stage that all of them make.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/top_k/problem/top_k_problem.hpp"

namespace tilewright {

const KernelFamily& top_k_cpu_family();          // an instance for each type
const KernelFamily& top_k_generic_family();      // typed at run time, always built
const KernelFamily& top_k_gpu_family();          // an instance for each type
const KernelFamily& top_k_generic_gpu_family();  // typed at run time

// Argument bytes without addresses, and where these go.
Stage top_k_stage(const TopKProblem& problem, const TopKArgs& with, std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
