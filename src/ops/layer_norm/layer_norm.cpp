// SPDX-License-Identifier: MIT
// layer_norm: what it takes, its reference, its public functions.
#include "tilewright/layer_norm.hpp"

#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/op_list.hpp"
#include "ops/row/norm.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

// Errors, with u = 2^-24. The first mean m errs as any sum of N, and is rounded to 2 u of the magnitudes' sum over sqrt(N): by d.
// From there on differences are summed, each rounded once: their mean corrects m to the sum's error over N and two roundings. The sum of squares has N d^2 more, which is taken off again,
// and errs as any sum, each square by the two roundings of its factors; its mean, eps, root and reciprocal 4 u.
void layer_norm_reference(const RowProblem& p, RowReference& row) {
  const auto n = static_cast<double>(p.n);
  double sum = 0, given = 0, magnitudes = 0;
  for (const double x : row.x) sum += x, given += x * x, magnitudes += std::fabs(x);
  const double mean = sum / n;
  double squares = 0, fourths = 0, differences = 0;
  for (const double x : row.x) {
    const double d = x - mean;
    squares += d * d, fourths += d * d * d * d, differences += std::fabs(d);
  }
  const double first = accumulation_bound(DType::kF32, p.n, std::sqrt(given), sum) / n +
                       kUlpF32 * (std::fabs(mean) + 2 * magnitudes / std::sqrt(n));
  const double shifted = squares + n * first * first;
  const double mean_error =
      (accumulation_bound(DType::kF32, p.n, std::sqrt(shifted), n * first) + kUlpF32 * (differences + n * first)) / n +
      2 * kUlpF32 * std::fabs(mean);
  const double lost = accumulation_bound(DType::kF32, p.n, std::sqrt(8 * (fourths + n * std::pow(first, 4))), shifted) +
                      4 * kUlpF32 * shifted;
  const double inverse = 1 / std::sqrt(squares / n + row.eps);
  const double total = squares + n * row.eps;
  const double relative = (total > 0 ? 0.5 * lost / total : 0) + 4 * kUlpF32;
  for (size_t i = 0; i < row.x.size(); ++i) {
    const double y = (row.x[i] - mean) * inverse;
    const double error = std::fabs(y) * (relative + 2 * kUlpF32) + mean_error * inverse * (1 + relative);
    row.y[i] = norm_columns_reference(p, row, i, {y, error});
  }
}

constexpr RowOp kLayerNorm{.name = "layer_norm",
                           .residual = true,
                           .columns = true,
                           .smooth = true,
                           .eps = true,
                           .quantises = false,
                           .reference = &layer_norm_reference};

RowFunctions layer_norm_functions() { return {kLayerNorm, layer_norm_operator()}; }

}  // namespace

const Operator& layer_norm_operator() {
  static const RowOperator kOperator(kLayerNorm);
  return kOperator;
}

Status layer_norm(Context& context, const LayerNormCall& call, const Exec& exec) {
  return layer_norm_functions().run(context, norm_row_call(call), call.recipe, exec);
}
Status layer_norm_prepare(Context& context, const LayerNormCall& call, const Exec& exec) {
  return layer_norm_functions().prepare(context, norm_row_call(call), call.recipe, exec);
}
Result<QueryResult> layer_norm_query(Context& context, const LayerNormCall& call, const Exec& exec) {
  return layer_norm_functions().query(context, norm_row_call(call), call.recipe, exec);
}
Result<std::string> layer_norm_explain(Context& context, const LayerNormCall& call, const Exec& exec) {
  return layer_norm_functions().explain(context, norm_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
