// SPDX-License-Identifier: MIT
// The cost model of gemm_amd: predicted seconds, good enough to rank candidates on every part of the five targets.
#pragma once

#include "device/device.hpp"
#include "gemm/amd/gemm_amd_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

struct GemmAmdKnobs {
  int64_t band = 0;     // rows of tiles that share columns of B; 0 = the usual
  int64_t split_k = 0;  // steps of tile_k in a part of K; 0 = all of them
  int64_t workers = 0;  // workgroups of stream-K; 0 = none
};

double gemm_amd_cost(const GemmProblem& problem, const DeviceSpec& device, const GemmAmdConfig& config,
                     const GemmAmdKnobs& knobs);

// The target's instruction of `mma` rows for the dtype, the fastest where there are several; null when there is none.
const MmaSpec* amd_mma(const ArchSpec& arch, DType dtype, int mma);
// Of two types the one of more bits: block-scaled instructions run at its pace.
constexpr DType wider_dtype(DType a, DType b) { return dtype_bits(b) > dtype_bits(a) ? b : a; }
// Columns of K that the matrix instructions of one step take (MatrixStep::kDepth).
int amd_step_depth(const ArchSpec& arch, DType dtype, int mma);
// Vector registers that a lane needs, about, with steps of `depth`.
int gemm_amd_registers(const GemmAmdConfig& config, int depth);
// Workgroups that a CU holds at a time.
int gemm_amd_residents(const ArchSpec& arch, const GemmAmdConfig& config);
// Dies of the part that workgroups are dealt out to.
unsigned amd_dies(const ArchSpec& arch);

}  // namespace tilewright
