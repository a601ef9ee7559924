// SPDX-License-Identifier: MIT
// What `tilewright tune` is asked to tune: layers of models, the problems of a suite, single ones.
#pragma once

#include "problems/model_layers.hpp"
#include "problems/suites/bench_suites.hpp"

namespace tilewright::cli {

struct TuneProblems {
  ModelArguments models;
  std::string suite;
  ProblemArguments problems;
};
void add_tune_problems_arguments(Arguments& arguments, TuneProblems& wanted);

// In this order, then `more`. What was named already is not named again by a suite, an argument or `more`. What is left out,
// and why, is said on stderr. On a GPU weights are not packed: that serves the CPU's kernels.
Result<std::vector<NamedProblem>> problems_to_tune(const TuneProblems& wanted, DeviceKind kind,
                                                   const std::vector<NamedProblem>& more);

}  // namespace tilewright::cli
