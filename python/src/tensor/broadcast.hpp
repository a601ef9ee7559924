// SPDX-License-Identifier: MIT
// Any number of leading dimensions -> at most one, by views alone.
#pragma once

#include <array>
#include <span>

#include "errors.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {

// Sizes without an allocation.
struct Shape {
  std::array<int64_t, kMaxRank> size{};
  int rank = 0;

  void push_back(int64_t value) { size[static_cast<size_t>(rank++)] = value; }
  std::span<const int64_t> span() const { return {size.data(), static_cast<size_t>(rank)}; }
};

// Leading dimensions of the result, broadcast as in NumPy from those of A and B (all but the last two).
Shape broadcast_leading(const char* op, const TensorView& a, const TensorView& b);

// Rewrites the views of `call`, whose D has rank lead.size() + 2: leading dimensions become rows of M where B has none
// and every stride allows it, else one batch dimension. Refuses what strides cannot express; nothing is copied.
void collapse_leading(const char* op, std::span<const int64_t> lead, GemmCall& call);

}  // namespace tilewright::python
