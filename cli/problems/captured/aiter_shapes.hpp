// SPDX-License-Identifier: MIT
// Shapes from AITER's CSV files, untuned and tuned: every variant is recognised by its columns (and, where two share
// them, by the file's name); what no operator serves is listed with the reason.
#pragma once

#include <string>
#include <vector>

#include "problems/csv_file.hpp"
#include "problems/problem_arguments.hpp"

namespace tilewright::cli {

// Rows that were not taken.
struct SkippedShapes {
  std::string source;  // file
  int64_t rows = 0;
  std::string reason;
};

// Adds a problem for each row that an operator serves. The error names file and line; an unknown set of columns is one.
Status aiter_problems(const std::string& path, std::vector<NamedProblem>& problems,
                      std::vector<SkippedShapes>& skipped);

}  // namespace tilewright::cli
