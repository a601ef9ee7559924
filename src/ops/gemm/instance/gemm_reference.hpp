// SPDX-License-Identifier: MIT
// The float64 yardstick: values and, for each one, the error that a correct kernel may have (src/core/tensor/tolerance.hpp).
#pragma once

#include <span>
#include <vector>

#include "arch/arch_spec.hpp"
#include "dispatch/instance/comparison.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

// D at rows x columns of one batch entry, row by row. Columns are D's (with a gate: [0, I)). A kernel of `vendor` may err as
// much as `allowed`.
void gemm_reference_block(const GemmProblem& problem, const GemmBindings& bindings, ArchVendor vendor, int64_t batch,
                          std::span<const int64_t> rows, std::span<const int64_t> columns,
                          std::vector<ReferenceElement>& out);
// The same where row rows[i] of D, C and the steps is made of row a_rows[i] of A and its scales.
void gemm_reference_block(const GemmProblem& problem, const GemmBindings& bindings, ArchVendor vendor, int64_t batch,
                          std::span<const int64_t> a_rows, std::span<const int64_t> rows,
                          std::span<const int64_t> columns, std::vector<ReferenceElement>& out);

// B[batch, k, n] as a double, plain or packed.
double gemm_load_b(const GemmProblem& problem, const void* b, int64_t batch, int64_t k, int64_t n);

}  // namespace tilewright
