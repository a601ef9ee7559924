// SPDX-License-Identifier: MIT
// rms_norm: what it takes, its reference, its public functions.
#include "tilewright/rms_norm.hpp"

#include "ops/op_list.hpp"
#include "ops/row/norm.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

void rms_norm_reference(const RowProblem& p, RowReference& row) {
  const NormalisedRow normalised = normalised_by_root(p, row);
  for (size_t i = 0; i < row.x.size(); ++i) row.y[i] = norm_columns_reference(p, row, i, normalised.elements[i]);
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
