// SPDX-License-Identifier: MIT
// A apply_penalties problem made real: guarded buffers with data, and the reference.
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/apply_penalties/problem/apply_penalties_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_apply_penalties_instance(const ApplyPenaltiesProblem& problem,
                                                                       Device& device, const InstanceOptions& options);

}  // namespace tilewright
