// SPDX-License-Identifier: MIT
// Operands of gemm as the copy engine of Hopper walks them: boxes of `rows` by 128 bytes of K (of 64 elements by a tile of
// K when the operand lies along M or N), swizzled for wgmma.
#pragma once

#include "dispatch/plan.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "tile/common/major.hpp"

namespace tilewright {

// Coordinates of the copy engine are 32 bits; tiles may reach beyond the end.
inline constexpr int64_t kMaxCopiedSize = (int64_t{1} << 31) - 1024;

// Ok, or which of N, K, the batch, or a stride of A or B the copy engine does not take.
Status check_copied_sizes(const GemmProblem& problem);

// A [batch, M, K] and B [batch, N, K] as tensor maps at `offset` of the stage's arguments. A size of 1 has any stride.
void add_operand_a(Stage& stage, const GemmProblem& problem, size_t offset, Major major, int rows);
void add_operand_b(Stage& stage, const GemmProblem& problem, size_t offset, Major major, int rows);
// A [batch, M, K] in slices of 128 bytes of K, which divide it: boxes of `rows` by `slices`, slice after slice.
void add_slices_of_a(Stage& stage, const GemmProblem& problem, size_t offset, int rows, int slices);
// Fragments of packed weights, those of `rows` columns by `k`, whole ones.
void add_packed_b(Stage& stage, const GemmProblem& problem, size_t offset, int rows, int k);

// Ok, or which stride of D the copy engine does not take.
Status check_copied_output(const GemmProblem& problem);
// D [batch, M, N] of 16-bit elements, its rows contiguous: boxes of `rows` by `columns`; under the 128-byte swizzle where their rows
// are 128 bytes.
void add_output_d(Stage& stage, const GemmProblem& problem, size_t offset, int rows, int columns);

}  // namespace tilewright
