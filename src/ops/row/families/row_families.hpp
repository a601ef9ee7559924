// SPDX-License-Identifier: MIT
// The kernel families of a row operator: typed by configs on CPUs and GPUs, and typed at run time on both.
#pragma once

#include <memory>

#include "dispatch/registry/family.hpp"
#include "ops/row/problem/row_problem.hpp"

namespace tilewright {

std::unique_ptr<KernelFamily> make_row_cpu_family(const RowOp& op);          // <op>_cpu
std::unique_ptr<KernelFamily> make_row_gpu_family(const RowOp& op);          // <op>_gpu
std::unique_ptr<KernelFamily> make_row_generic_family(const RowOp& op);      // <op>_generic
std::unique_ptr<KernelFamily> make_row_generic_gpu_family(const RowOp& op);  // <op>_generic_gpu

// Problems that always-built instances are made for.
std::vector<RowProblem> usual_row_problems(const RowOp& op);

// Argument bytes without addresses, and where these go. `stream`: see RowArgs.
Stage row_stage(const RowProblem& problem, bool stream, long long grid, std::shared_ptr<const LoadedKernel> kernel);

// The stages of a call: `rows` alone, or where a scale of the tensor is found, before it one that finds `parts` largest magnitudes
// and one that makes them the scale. All of one kernel. Without rows only the scale is left, and of gradients the sums: nothing is
// launched that takes rows.
std::vector<Stage> row_stages(const RowProblem& problem, Stage rows, const LaunchShape& find, const LaunchShape& scale,
                              int64_t parts);
// The stages of a softmax whose rows are chunks of a block each: one that finds a pair of numbers a chunk, and one that merges a row's and
// writes. Of one kernel, `grid` blocks each.
std::vector<Stage> chunk_stages(const Stage& rows, int64_t chunks);
// The stages of a norm's gradient with sums of columns: `rows`, which leave `parts` of them, and one of its kernel that adds these.
std::vector<Stage> column_stages(const RowProblem& problem, const Stage& rows, const LaunchShape& columns,
                                 int64_t parts);
// The one stage of few rows, which one cluster takes at once: of `rows`, whose kernel has that step.
std::vector<Stage> together_stages(Stage rows, int blocks, int64_t shared_bytes);
// What stages need of the workspace.
int64_t row_workspace_bytes(const RowProblem& problem, int64_t parts);

}  // namespace tilewright
