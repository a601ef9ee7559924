// SPDX-License-Identifier: MIT
// rms_norm: what it takes, its reference, its public functions.
#include "tilewright/rms_norm.hpp"

#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/op_list.hpp"
#include "ops/row/norm.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

// Errors, with u = 2^-24: the sum of squares as any sum; its mean, eps, root and reciprocal 4 u; each factor of y one rounding.
void rms_norm_reference(const RowProblem& p, RowReference& row) {
  double squares = 0, fourths = 0;
  for (const double x : row.x) squares += x * x, fourths += x * x * x * x;
  const auto n = static_cast<double>(p.n);
  const double inverse = 1 / std::sqrt(squares / n + row.eps);
  const double lost = accumulation_bound(DType::kF32, p.n, std::sqrt(fourths), squares);
  const double relative = squares > 0 ? 0.5 * lost / (squares + n * row.eps) + 4 * kUlpF32 : 4 * kUlpF32;
  for (size_t i = 0; i < row.x.size(); ++i) {
    const double y = row.x[i] * inverse;
    row.y[i] = norm_columns_reference(p, row, i, {y, std::fabs(y) * (relative + kUlpF32)});
  }
}

constexpr RowOp kRmsNorm{.name = "rms_norm",
                         .residual = true,
                         .columns = true,
                         .smooth = true,
                         .eps = true,
                         .quantises = false,
                         .reference = &rms_norm_reference};

RowFunctions rms_norm_functions() { return {kRmsNorm, rms_norm_operator()}; }

}  // namespace

const Operator& rms_norm_operator() {
  static const RowOperator kOperator(kRmsNorm);
  return kOperator;
}

Status rms_norm(Context& context, const RmsNormCall& call, const Exec& exec) {
  return rms_norm_functions().run(context, norm_row_call(call), call.recipe, exec);
}
Status rms_norm_prepare(Context& context, const RmsNormCall& call, const Exec& exec) {
  return rms_norm_functions().prepare(context, norm_row_call(call), call.recipe, exec);
}
Result<QueryResult> rms_norm_query(Context& context, const RmsNormCall& call, const Exec& exec) {
  return rms_norm_functions().query(context, norm_row_call(call), call.recipe, exec);
}
Result<std::string> rms_norm_explain(Context& context, const RmsNormCall& call, const Exec& exec) {
  return rms_norm_functions().explain(context, norm_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
