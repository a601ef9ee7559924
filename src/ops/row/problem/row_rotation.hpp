// SPDX-License-Identifier: MIT
// The part of a RowProblem that rope has: heads of one or two tensors, tables of angles, positions.
#pragma once

#include <string>
#include <string_view>

#include "ops/row/problem/row_problem.hpp"

namespace tilewright {

// make_row_problem() of an operator that rotates.
Status make_rotation_problem(const RowOp& op, const RowCall& call, bool check_addresses, RowProblem& problem,
                             RowBindings& bindings);
Status validate_rotation(const RowOp& op, const RowProblem& problem);

std::string print_rotation(const RowProblem& problem);
// False: the field is none of rope's.
bool parse_rotation(std::string_view name, std::string_view value, RowProblem& problem, Status& status);
// What a text starts from.
RowRotationProblem unset_rotation();
// What the text left out; before strides are set.
void complete_rotation(RowProblem& problem);
// Heads and tables that fit the problem's sizes, where these have changed.
void fit_rotation(RowProblem& problem);

}  // namespace tilewright
