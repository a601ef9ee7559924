// SPDX-License-Identifier: MIT
// A top_k problem made real: guarded buffers with data, and the reference.
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/top_k/problem/top_k_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_top_k_instance(const TopKProblem& problem, Device& device,
                                                             const InstanceOptions& options);

}  // namespace tilewright
