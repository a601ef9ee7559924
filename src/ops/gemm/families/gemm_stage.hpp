// SPDX-License-Identifier: MIT
// A gemm problem as the argument struct of the GemmArgs kernels, with the places where addresses and scalars go.
#pragma once

#include "dispatch/plan.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

struct GemmKnobs {
  int64_t block_m = 0, block_n = 0, block_k = 0;
};

// Everything of GemmArgs but addresses and scalars.
GemmArgs gemm_args(const GemmProblem& problem, const GemmKnobs& knobs);
Stage gemm_stage(const GemmProblem& problem, const GemmKnobs& knobs, uint32_t units,
                 std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
