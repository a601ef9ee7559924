// SPDX-License-Identifier: MIT
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_gemm_instance(const GemmProblem& problem, Device& device,
                                                            const InstanceOptions& options);

}  // namespace tilewright
