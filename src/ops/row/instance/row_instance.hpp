// SPDX-License-Identifier: MIT
// A row operator's problem made real: guarded buffers with data, and the float64 reference.
#pragma once

#include <span>
#include <vector>

#include "dispatch/instance/comparison.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/row/problem/row_problem.hpp"

namespace tilewright {

// What RowOp::reference reads and writes: one row.
struct RowReference {
  std::span<const double> x;                     // with the residual, rounded to its type; 2 N where x is gated
  std::span<const double> second;                // of operators with another operand: one element, where a row has one
  std::span<const double> weight, bias, smooth;  // empty = absent; the weight with its offset
  double eps = 0, limit = 0, alpha = 1, up_offset = 0;
  std::span<const double> scales;        // that are read: of the row's groups
  std::span<const double> cosine, sine;  // of the pairs that turn; NaN beyond the tables
  std::span<ReferenceElement> y;
  int64_t target = 0;  // as the next, cross_entropy's
  float smoothing = 0, z = 0, grad_scale = 1;
  ReferenceElement loss{}, lse{};
  std::span<const double> added;           // to x's gradient; empty = absent
  std::span<ReferenceElement> normalised;  // of a norm's gradient: what the weight's is made of
};

// A problem's tensors on the host, by slot.
struct RowHostTensors {
  std::array<const void*, kRowPointerSlots> data{};
  std::array<float, kRowScalarSlots> scalars{};
};

// One row of the reference: `sum` is what residual_out gets, `y` what comes before quantising.
struct RowReferenceResult {
  std::vector<double> sum, second;
  std::vector<ReferenceElement> y, normalised;
  ReferenceElement loss, lse;
};
void row_reference(const RowOp& op, const RowProblem& problem, const RowHostTensors& tensors, int64_t row,
                   RowReferenceResult& result);

// Compares the sums of columns over all rows with what a norm's gradient should be.
void compare_column_sums(const RowOp& op, const RowProblem& problem, const RowHostTensors& tensors,
                         Comparison& comparison);
// Where the scales of a row begin, in elements.
int64_t scale_element(const RowProblem& problem, int64_t row);
// Compares scales of the tensor or of blocks, which are found over more than one row.
void compare_shared_scales(const RowOp& op, const RowProblem& problem, const RowHostTensors& tensors,
                           Comparison& comparison);
// Compares a row's quantised elements and its own scales with what `y` allows; `index` = the row's number.
void compare_quantised_row(const RowOp& op, const RowProblem& problem, const RowHostTensors& tensors, int64_t row,
                           std::span<const ReferenceElement> y, Comparison& comparison);

Result<std::unique_ptr<ProblemInstance>> make_row_instance(const RowOp& op, const RowProblem& problem, Device& device,
                                                           const InstanceOptions& options);

// Where a row is read and written: rows of heads have two tensors each.
struct RowPlace {
  uint16_t in = kRowX, out = kRowOut;
  int64_t first_in = 0, first_out = 0;  // elements
};
RowPlace row_place(const RowProblem& problem, int64_t row);

// Element (row, 0) of a tensor, in elements from its first.
int64_t row_element(const RowProblem& problem, const std::array<int64_t, kRowDims>& stride, int64_t row);

}  // namespace tilewright
