// SPDX-License-Identifier: MIT
// A move made real: guarded buffers with data, and what must be where afterwards.
#pragma once

#include "dispatch/problem_instance.hpp"
#include "ops/kv_cache_move/problem/move_problem.hpp"

namespace tilewright {

Result<std::unique_ptr<ProblemInstance>> make_move_instance(const CacheMoveOp& op, const CacheMoveProblem& problem,
                                                            Device& device, const InstanceOptions& options);

}  // namespace tilewright
