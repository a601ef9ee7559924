// SPDX-License-Identifier: MIT
// Sets of problems that commands run without being told which.
#pragma once

#include <vector>

#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

// Covers dtypes, layouts, packed weights and epilogues, at sizes that verify in seconds.
Result<std::vector<NamedProblem>> standard_problems();

}  // namespace tilewright::cli
