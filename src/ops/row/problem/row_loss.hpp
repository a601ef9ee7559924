// SPDX-License-Identifier: MIT
// The part of a RowProblem that cross_entropy has: targets and losses, a number a row each.
#pragma once

#include <string>
#include <string_view>

#include "ops/row/problem/row_problem.hpp"

namespace tilewright {

// What every problem of an operator that loses has: targets and losses.
void add_loss(RowProblem& problem);
Status validate_loss(const RowOp& op, const RowProblem& problem);
// The numbers of a call, and its factor.
Status check_loss_call(const RowOp& op, const RowCall& call);

std::string print_loss(const RowProblem& problem);
// False: the field is none of cross_entropy's.
bool parse_loss(std::string_view name, std::string_view value, RowProblem& problem, Status& status);

}  // namespace tilewright
