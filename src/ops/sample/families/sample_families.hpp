// SPDX-License-Identifier: MIT
// The kernel families behind sample, and the stage that all of them make.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/sample/problem/sample_problem.hpp"

namespace tilewright {

const KernelFamily& sample_cpu_family();          // an instance for each type
const KernelFamily& sample_generic_family();      // typed at run time, always built
const KernelFamily& sample_gpu_family();          // an instance for each type
const KernelFamily& sample_generic_gpu_family();  // typed at run time

// Argument bytes without addresses, and where these go.
Stage sample_stage(const SampleProblem& problem, const SampleArgs& with, std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
