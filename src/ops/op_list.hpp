// SPDX-License-Identifier: MIT
// The operators of the library (op_list.inc).
#pragma once

#include <span>

#include "dispatch/operator.hpp"

namespace tilewright {

// const Operator& gemm_operator(); and so on.
#define TILEWRIGHT_OPERATOR(name) const Operator& name##_operator();
#include "ops/op_list.inc"
#undef TILEWRIGHT_OPERATOR

std::span<const Operator* const> all_operators();

}  // namespace tilewright
