// SPDX-License-Identifier: MIT
// softmax: what it takes, its reference, its public functions.
#include "tilewright/softmax.hpp"

#include <cmath>
#include <limits>

#include "core/tensor/tolerance.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

void softmax_reference(const RowProblem& p, RowReference& row) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const double sign = row.alpha < 0 ? -1 : 1;
  double most = -std::numeric_limits<double>::infinity();
  for (const double x : row.x) most = std::isnan(x) || std::isnan(most) ? kNaN : std::max(most, sign * x);
  if (!std::isfinite(most)) {
    for (ReferenceElement& y : row.y) y = {kNaN, 0};
    return;
  }
  // What lies further below than f32 reaches weighs nothing.
  const auto difference = [&](double x) {
    return static_cast<double>(static_cast<float>(sign * x - most)) * sign * row.alpha;
  };

  // What the sum errs, relative to it.
  double sum = 0, squares = 0, sum_error = 0;
  for (const double x : row.x) {
    const double d = difference(x), e = std::exp(d);
    if (e == 0) continue;
    sum += e, squares += e * e, sum_error += e * exponential_bound(d);
  }
  sum_error = (sum_error + accumulation_bound(DType::kF32, p.n, std::sqrt(squares), sum)) / sum;

  const double logarithm = std::log(sum);
  for (size_t i = 0; i < row.y.size(); ++i) {
    const double d = difference(row.x[i]);
    if (std::isinf(d)) {
      row.y[i] = {p.log ? d : 0, 0};
    } else if (p.log) {
      row.y[i] = {d - logarithm, sum_error + epilogue_bound(std::fabs(d) + logarithm)};
    } else {
      const double y = std::exp(d) / sum;
      row.y[i] = {y, y * (exponential_bound(d) + sum_error + epilogue_bound(1)) + kLostExponential};
    }
  }
}

constexpr RowOp kSoftmax{.name = "softmax",
                         .residual = false,
                         .columns = false,
                         .smooth = false,
                         .eps = false,
                         .quantises = false,
                         .softmax = true,
                         .reference = &softmax_reference};

// A factor of 0 would make NaN of the infinite differences of what weighs nothing: one that is as good as 0 does not.
RowCall softmax_row_call(const SoftmaxCall& c) {
  constexpr float kLeastScale = std::numeric_limits<float>::min();
  return {.x = c.x, .out = c.out, .alpha = std::fabs(c.scale) < kLeastScale ? kLeastScale : c.scale, .log = c.log};
}

RowFunctions softmax_functions() { return {kSoftmax, softmax_operator()}; }

}  // namespace

const Operator& softmax_operator() {
  static const RowOperator kOperator(kSoftmax);
  return kOperator;
}

Status softmax(Context& context, const SoftmaxCall& call, const Exec& exec) {
  return softmax_functions().run(context, softmax_row_call(call), call.recipe, exec);
}
Status softmax_prepare(Context& context, const SoftmaxCall& call, const Exec& exec) {
  return softmax_functions().prepare(context, softmax_row_call(call), call.recipe, exec);
}
Result<QueryResult> softmax_query(Context& context, const SoftmaxCall& call, const Exec& exec) {
  return softmax_functions().query(context, softmax_row_call(call), call.recipe, exec);
}
Result<std::string> softmax_explain(Context& context, const SoftmaxCall& call, const Exec& exec) {
  return softmax_functions().explain(context, softmax_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
