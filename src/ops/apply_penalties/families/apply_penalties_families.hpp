// SPDX-License-Identifier: MIT
// The kernel families behind apply_penalties, and the stage that all of them make.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/apply_penalties/problem/apply_penalties_problem.hpp"

namespace tilewright {

const KernelFamily& apply_penalties_cpu_family();          // an instance for each type
const KernelFamily& apply_penalties_generic_family();      // typed at run time, always built
const KernelFamily& apply_penalties_gpu_family();          // an instance for each type
const KernelFamily& apply_penalties_generic_gpu_family();  // typed at run time

// Argument bytes without addresses, and where these go.
Stage apply_penalties_stage(const ApplyPenaltiesProblem& problem, long long grid,
                            std::shared_ptr<const LoadedKernel> kernel);
// That a row is counted in.
inline int64_t penalty_chunks(const ApplyPenaltiesProblem& p) { return (p.n + kPenaltyChunk - 1) / kPenaltyChunk; }

}  // namespace tilewright
