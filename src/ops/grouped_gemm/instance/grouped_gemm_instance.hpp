// SPDX-License-Identifier: MIT
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_grouped_gemm_instance(const GroupedGemmProblem& problem, Device& device,
                                                                    const InstanceOptions& options);

}  // namespace tilewright
