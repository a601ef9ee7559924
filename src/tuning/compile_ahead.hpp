// SPDX-License-Identifier: MIT
// Compiles what a tuning run on a GPU will try, before it tries any of it: tasks share most of their kernels, and compilers
// that run side by side need no device.
#pragma once

#include <functional>
#include <span>

#include "tuning/search.hpp"

namespace tilewright {

struct CompileAheadOptions {
  double seconds = 60;      // then what is left is compiled when it is wanted
  double task_seconds = 3;  // that a task will have: how many of its candidates can be tried at all
  std::function<void(size_t done, size_t all)> progress;
};

// The most promising candidates of every task, best of all tasks first, each kernel once. A kernel that does not compile is
// left for its task to find out.
void compile_ahead(SearchState& state, std::span<const TuneTask* const> tasks, const CompileAheadOptions& options);

}  // namespace tilewright
