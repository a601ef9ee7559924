// SPDX-License-Identifier: MIT
// The kernel families behind transpose, and the stage that all of them make.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/transpose/problem/transpose_problem.hpp"

namespace tilewright {

const KernelFamily& transpose_cpu_family();          // an instance for each size of elements
const KernelFamily& transpose_generic_family();      // told at run time, always built
const KernelFamily& transpose_gpu_family();          // an instance for each size of elements, in whole pieces
const KernelFamily& transpose_generic_gpu_family();  // told at run time, element by element

// Argument bytes without addresses, and where these go.
Stage transpose_stage(const TransposeProblem& problem, long long grid, std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
