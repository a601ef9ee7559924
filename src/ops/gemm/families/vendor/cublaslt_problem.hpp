// SPDX-License-Identifier: MIT
// A gemm problem in cuBLASLt's terms: which operand is A and which is B there, how each lies, which epilogue. Asks no library.
#pragma once

#include "device/cuda/vendor/cublaslt.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

struct CublasLtProblem {
  cuda::LtProblem lt;
  // Matrices lie there by columns. A D by rows is the transposed product: our B is its A.
  bool swapped = true;
};

// `units`: SMs to use, 0 = all. The error says what cuBLASLt cannot express.
Result<CublasLtProblem> cublaslt_problem(const GemmProblem& problem, int units);

}  // namespace tilewright
