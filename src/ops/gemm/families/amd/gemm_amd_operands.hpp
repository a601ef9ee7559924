// SPDX-License-Identifier: MIT
// What gemm_amd multiplies, and how A, B and their block scales can be copied to LDS.
#pragma once

#include "ops/gemm/families/gpu/gpu_problem.hpp"

namespace tilewright {

// Ok, or why the target's matrix instructions do not multiply A and B as they are.
Status check_amd_product(const GemmProblem& problem, const ArchSpec& arch);
// Whether matrix instructions of the target scale 32 of K of either operand, each of a type of its own.
bool has_block_scales(const ArchSpec& arch);

// copy: bytes of a chunk, 16, or 0 where an operand has to be read by elements.
struct AmdChunks {
  OperandAccess a, b;
};
// For tiles of tile_m x tile_n x tile_k.
AmdChunks amd_chunks(const GemmProblem& problem, int tile_m, int tile_n, int tile_k);

// The dtype of block scales; none where there are none.
DType amd_scale_dtype(const GemmProblem& problem);
// Bytes of block scales that can be read at once: 4, or 1 = of any strides; 0 = there are none.
int amd_scale_copy(const GemmProblem& problem);

}  // namespace tilewright
