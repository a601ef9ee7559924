// SPDX-License-Identifier: MIT
// A gemm problem as the argument struct of the GemmArgs kernels, with the places where addresses and scalars go.
#pragma once

#include <cstddef>
#include <cstring>

#include "dispatch/plan.hpp"
#include "gemm/gemm_scale_args.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright {

struct GemmKnobs {
  int64_t block_m = 0, block_n = 0, block_k = 0;
};

// Everything of GemmArgs but addresses and scalars.
GemmArgs gemm_args(const GemmProblem& problem, const GemmKnobs& knobs);
Stage gemm_stage(const GemmProblem& problem, const GemmKnobs& knobs, uint32_t units,
                 std::shared_ptr<const LoadedKernel> kernel);

inline void add_patch(Stage& stage, ArgPatch::Kind kind, uint16_t slot, size_t offset) {
  stage.patches.push_back({kind, slot, static_cast<uint32_t>(offset)});
}
// Makes the arguments of `stage`, a GemmArgs, the member `gemm` of `args`: their places move with it.
template <class Args>
void enclose_args(Stage& stage, Args args) {
  std::memcpy(&args.gemm, stage.args.data(), sizeof(args.gemm));
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  for (ArgPatch& patch : stage.patches) patch.arg_offset += offsetof(Args, gemm);
}

// The scales of groups, but their addresses; absent ones are null. Addresses go where add_scale_patches() says: `offset` is
// that of the GemmScaleArgs in the stage's arguments.
GemmScaleArgs gemm_scale_args(const GemmProblem& problem);  // zero points are GemmScaledArgs' own
GemmScaledArgs gemm_scaled_args(const GemmProblem& problem, const GemmKnobs& knobs);
void add_scale_patches(Stage& stage, const GemmProblem& problem, size_t offset);
// The stage of a kernel that takes GemmScaledArgs.
Stage gemm_scaled_stage(const GemmProblem& problem, const GemmKnobs& knobs, uint32_t units,
                        std::shared_ptr<const LoadedKernel> kernel);

}  // namespace tilewright
