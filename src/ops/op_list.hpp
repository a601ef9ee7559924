// SPDX-License-Identifier: MIT
// The operators, one line each. Bindings, docs, tests and benches read this list.
#pragma once

#include <span>

#include "dispatch/operator.hpp"

namespace tilewright {

const Operator& gemm_operator();

std::span<const Operator* const> all_operators();

}  // namespace tilewright
