// SPDX-License-Identifier: MIT
// Which memory a gemm call may share between D and its inputs.
#pragma once

#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// D's own elements must be distinct: refuses strides that make two of them share an address.
Status check_gemm_self_overlap(const GemmProblem& problem);
// Null pointers, the packed header of B, and D overlapping an input. D may be C or a step's tensor itself (same address
// and strides): each element is read before it is written, by the thread that writes it.
Status check_gemm_addresses(const GemmProblem& problem, const GemmBindings& bindings);

}  // namespace tilewright
