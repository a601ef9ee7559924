// SPDX-License-Identifier: MIT
#include "ops/row/norm.hpp"

#include <cmath>

#include "core/tensor/tolerance.hpp"

namespace tilewright {

ReferenceElement norm_columns_reference(const RowProblem& p, const RowReference& row, size_t i,
                                        ReferenceElement normalised) {
  double y = normalised.value, error = normalised.allowed;
  if (p.round_before_weight) error += rounding_bound(p.x.dtype, std::fabs(y) + error);
  double terms = std::fabs(y);
  if (!row.weight.empty()) {
    y *= row.weight[i], error *= std::fabs(row.weight[i]);
    terms = std::fabs(y);
  }
  if (!row.bias.empty()) y += row.bias[i], terms += std::fabs(row.bias[i]);
  error += epilogue_bound(terms);
  if (!row.smooth.empty()) y *= row.smooth[i], error = error * std::fabs(row.smooth[i]) + epilogue_bound(std::fabs(y));
  return {y, error};
}

}  // namespace tilewright
