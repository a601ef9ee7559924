// SPDX-License-Identifier: MIT
// A gemm problem's tensors and scalars, and the argument struct of a family's kernels, in words.
#pragma once

#include <string_view>

#include "dispatch/call_description.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

CallDescription describe_gemm_call(const GemmProblem& problem);
// Of a family's GPU kernels; refuses families of CPUs and of vendors' libraries.
Result<ArgStruct> describe_gemm_args(std::string_view family);

}  // namespace tilewright
