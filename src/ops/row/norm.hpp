// SPDX-License-Identifier: MIT
// What norms have in common: their call, and what their references end with.
#pragma once

#include "ops/row/instance/row_instance.hpp"

namespace tilewright {

// Of the norms' public calls, which have the same fields.
template <class Call>
RowCall norm_row_call(const Call& c) {
  return {.x = c.x,
          .residual = c.residual,
          .residual_out = c.residual_out,
          .out = c.out,
          .weight = c.weight,
          .bias = c.bias,
          .smooth = c.smooth,
          .scale = c.scale,
          .tensor_scale = c.tensor_scale,
          .eps = c.eps,
          .unit_offset = c.unit_offset,
          .round_before_weight = c.round_before_weight,
          .quant = c.quant,
          .group = c.group,
          .rounding = c.rounding};
}

// Of the public calls of norms' gradients, which have the same fields.
template <class Call>
RowCall norm_backward_row_call(const Call& c) {
  return {.x = c.x,
          .residual = c.dy,
          .out = c.dx,
          .weight = c.weight,
          .eps = c.eps,
          .unit_offset = c.unit_offset,
          .added = c.dresidual,
          .weight_gradient = c.dweight,
          .bias_gradient = c.dbias};
}

// A row normalised, each element with what f32 may err; and what it was multiplied by, with its relative error.
struct NormalisedRow {
  std::vector<ReferenceElement> elements;
  double inverse, relative;
};
NormalisedRow normalised_by_root(const RowProblem& problem, const RowReference& row);       // rms_norm's
NormalisedRow normalised_by_deviation(const RowProblem& problem, const RowReference& row);  // layer_norm's

// The gradient of a row whose mean was taken off if `centred`.
void norm_gradient_reference(const RowProblem& problem, RowReference& row, NormalisedRow&& normalised, bool centred);

// Element i of the output, from the normalised value and what it may err: rounded to x's type where asked for, times the weight,
// plus the bias, times smooth.
ReferenceElement norm_columns_reference(const RowProblem& problem, const RowReference& row, size_t i,
                                        ReferenceElement normalised);

}  // namespace tilewright
