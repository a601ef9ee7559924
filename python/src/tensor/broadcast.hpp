// SPDX-License-Identifier: MIT
// Any number of leading dimensions -> at most one, by views alone.
#pragma once

#include <span>
#include <vector>

#include "errors.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {

// Leading dimensions of the result, broadcast as in NumPy from those of A and B (all but the last two).
std::vector<int64_t> broadcast_leading(const char* op, const TensorView& a, const TensorView& b);

// Rewrites the views of `call`, whose D has rank lead.size() + 2: leading dimensions become rows of M where B has none
// and every stride allows it, else one batch dimension. Refuses what strides cannot express; nothing is copied.
void collapse_leading(const char* op, std::span<const int64_t> lead, GemmCall& call);

}  // namespace tilewright::python
