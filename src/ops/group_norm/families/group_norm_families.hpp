// SPDX-License-Identifier: MIT
// The kernel families behind group_norm and its gradient, and the stages that all of them make.
#pragma once

#include "dispatch/registry/family.hpp"
#include "ops/group_norm/problem/group_norm_problem.hpp"

namespace tilewright {

// Four each of group_norm and of its gradient: an instance for each type and layout, or told at run time and always built.
const KernelFamily& group_norm_cpu_family(bool generic, bool backward);
const KernelFamily& group_norm_gpu_family(bool generic, bool backward);

// How positions are cut, which is all that bits depend on.
struct GroupNormChunks {
  int64_t span, count;
};
// Of `whole` positions at most; fewer, but a multiple of `step`, where the image has no more.
GroupNormChunks group_norm_chunks(const GroupNormProblem& problem, int64_t whole, int64_t step);
int64_t group_norm_workspace(const GroupNormProblem& problem, const GroupNormChunks& chunks);

// Argument bytes without addresses, and where these go. Each step has a stage of its own.
Stage group_norm_stage(const GroupNormProblem& problem, const GroupNormChunks& chunks,
                       std::shared_ptr<const LoadedKernel> kernel);
// `grid`: a GPU's blocks; `width`: see GroupNormArgs.
void set_group_norm_step(Stage& stage, GroupNormStep step, int64_t grid, int64_t width = 0);
std::vector<GroupNormStep> group_norm_steps(const GroupNormProblem& problem);
// What a step goes over: groups, channels, or `tiles`.
int64_t group_norm_items(const GroupNormProblem& problem, GroupNormStep step, int64_t tiles);

// "x=bf16:channels_last=1", of a kernel key.
std::string group_norm_signature(const GroupNormConfig& config);
bool is_group_norm_config(const GroupNormConfig& config);

}  // namespace tilewright
