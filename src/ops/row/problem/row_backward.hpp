// SPDX-License-Identifier: MIT
// Gradients' part of a row operator's problem: what beside x's gradient comes in and goes out (docs/norm_backward.md).
#pragma once

#include "ops/row/problem/row_problem.hpp"

namespace tilewright {

Status validate_backward(const RowOp& op, const RowProblem& problem);

// ":dresidual=1:dweight=f32"
std::string print_backward(const RowProblem& problem);
// True where `name` is one of these fields; `status` says whether it was understood.
bool parse_backward(std::string_view name, std::string_view value, RowProblem& problem, Status& status);

}  // namespace tilewright
