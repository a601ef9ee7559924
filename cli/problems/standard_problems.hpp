// SPDX-License-Identifier: MIT
// Sets of problems that commands run without being told which.
#pragma once

#include <string>
#include <vector>

#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

// Covers dtypes, layouts, packed weights and epilogues, at sizes that verify in seconds.
Result<std::vector<NamedProblem>> standard_problems();

// A problem of a bench suite.
struct SuiteProblem {
  NamedProblem problem;
  std::string regime;  // rows of a regime share a geometric mean: "square", "decode", "prefill"
  int threads = 0;     // 0 = all
};
std::vector<std::string> suite_names();
// `suite` stands in suite_names(), or is "all".
Result<std::vector<SuiteProblem>> suite_problems(const std::string& suite);

}  // namespace tilewright::cli
