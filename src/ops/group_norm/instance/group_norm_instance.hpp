// SPDX-License-Identifier: MIT
// A group_norm problem made real: guarded buffers with data, and the comparison with the reference.
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/group_norm/problem/group_norm_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_group_norm_instance(const GroupNormProblem& problem, Device& device,
                                                                  const InstanceOptions& options);

}  // namespace tilewright
