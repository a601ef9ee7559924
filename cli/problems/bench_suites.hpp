// SPDX-License-Identifier: MIT
// What `tilewright bench --suite NAME` measures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

struct SuiteProblem {
  NamedProblem problem;
  std::string regime;  // rows of a regime share a geometric mean
  int threads = 0;     // 0 = all
  // Compared with as if it were a peer: the same product without its epilogue.
  std::optional<NamedProblem> baseline = {};
};
std::vector<std::string> suite_names();
// `suite` stands in suite_names(), or is "all".
Result<std::vector<SuiteProblem>> suite_problems(const std::string& suite);

}  // namespace tilewright::cli
