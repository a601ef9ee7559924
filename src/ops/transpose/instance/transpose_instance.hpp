// SPDX-License-Identifier: MIT
// A transpose problem made real: guarded buffers with data, and the reference.
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/transpose/problem/transpose_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_transpose_instance(const TransposeProblem& problem, Device& device,
                                                                 const InstanceOptions& options);

}  // namespace tilewright
