// SPDX-License-Identifier: MIT
// cross_entropy: what it takes, its reference, its public functions.
#include "tilewright/cross_entropy.hpp"

#include <cmath>
#include <limits>

#include "core/tensor/tolerance.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

void cross_entropy_reference(const RowProblem& p, RowReference& row) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  double most = -std::numeric_limits<double>::infinity();
  for (const double x : row.x) most = std::isnan(x) || std::isnan(most) ? kNaN : std::max(most, x);

  // What the sum errs, relative to it; and the plain sum.
  const auto n = static_cast<double>(p.n);
  double sum = 0, squares = 0, sum_error = 0, total = 0, magnitudes = 0, total_squares = 0;
  for (const double x : row.x) {
    const double d = x - most, e = std::exp(d);
    sum += e, squares += e * e, sum_error += e * exponential_bound(d);
    total += x, magnitudes += std::fabs(x), total_squares += x * x;
  }
  sum_error = (sum_error + accumulation_bound(DType::kF32, p.n, std::sqrt(squares), sum)) / sum;
  const double total_error = accumulation_bound(DType::kF32, p.n, std::sqrt(total_squares), magnitudes);
  const double logarithm = std::log(sum), lse = most + logarithm;
  const double lse_error = sum_error + epilogue_bound(std::fabs(most) + std::fabs(logarithm));
  row.lse = {lse, lse_error};

  const bool ignored = row.target == p.loss.ignore_index, known = row.target >= 0 && row.target < p.n;
  const double target = known ? row.x[static_cast<size_t>(row.target)] : kNaN;
  const double s = row.smoothing, z = row.z;
  const double loss = (1 - s) * (most - target) + s * (most - total / n) + logarithm + z * lse * lse;
  const double terms = std::fabs(most) + std::fabs(target) + magnitudes / n + std::fabs(logarithm) + z * lse * lse;
  row.loss = {loss, sum_error + epilogue_bound(terms) + s * total_error / n + 2 * z * std::fabs(lse) * lse_error};
  if (ignored) row.loss = {0, 0};

  // by * softmax - even, and of the target less hot.
  const double scale = row.grad_scale, by = 1 + 2 * z * lse;
  for (size_t i = 0; i < row.y.size() && p.out.present(); ++i) {
    const double d = row.x[i] - most, softmax = std::exp(d) / sum;
    const double even = s / n, hot = known && static_cast<int64_t>(i) == row.target ? 1 - s : 0;
    const double y = softmax * by,
                 error = y == 0 ? 0 : std::fabs(y) * (exponential_bound(d) + sum_error) + softmax * 2 * z * lse_error;
    row.y[i] = {scale * (y - even - hot),
                std::fabs(scale) * (error + epilogue_bound(std::fabs(y) + even + hot) + kLostExponential)};
    if (!known) row.y[i] = {kNaN, 0};
    if (ignored) row.y[i] = {0, 0};
  }
}

constexpr RowOp kCrossEntropy{.name = "cross_entropy",
                              .residual = false,
                              .columns = false,
                              .smooth = false,
                              .eps = false,
                              .quantises = false,
                              .loses = true,
                              .reference = &cross_entropy_reference};

RowCall cross_entropy_row_call(const CrossEntropyCall& c) {
  return {.x = c.x,
          .out = c.out,
          .target = c.target,
          .loss = c.loss,
          .lse = c.lse,
          .factor = c.factor,
          .ignore_index = c.ignore_index,
          .smoothing = c.label_smoothing,
          .z = c.z_loss,
          .grad_scale = c.grad_scale};
}

RowFunctions cross_entropy_functions() { return {kCrossEntropy, cross_entropy_operator()}; }

}  // namespace

const Operator& cross_entropy_operator() {
  static const RowOperator kOperator(kCrossEntropy);
  return kOperator;
}

Status cross_entropy(Context& context, const CrossEntropyCall& call, const Exec& exec) {
  return cross_entropy_functions().run(context, cross_entropy_row_call(call), call.recipe, exec);
}
Status cross_entropy_prepare(Context& context, const CrossEntropyCall& call, const Exec& exec) {
  return cross_entropy_functions().prepare(context, cross_entropy_row_call(call), call.recipe, exec);
}
Result<QueryResult> cross_entropy_query(Context& context, const CrossEntropyCall& call, const Exec& exec) {
  return cross_entropy_functions().query(context, cross_entropy_row_call(call), call.recipe, exec);
}
Result<std::string> cross_entropy_explain(Context& context, const CrossEntropyCall& call, const Exec& exec) {
  return cross_entropy_functions().explain(context, cross_entropy_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
