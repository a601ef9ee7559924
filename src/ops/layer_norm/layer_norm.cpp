// SPDX-License-Identifier: MIT
// layer_norm: what it takes, its reference, its public functions.
#include "tilewright/layer_norm.hpp"

#include "ops/op_list.hpp"
#include "ops/row/norm.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

void layer_norm_reference(const RowProblem& p, RowReference& row) {
  const NormalisedRow normalised = normalised_by_deviation(p, row);
  for (size_t i = 0; i < row.x.size(); ++i) row.y[i] = norm_columns_reference(p, row, i, normalised.elements[i]);
}

constexpr RowOp kLayerNorm{.name = "layer_norm",
                           .residual = true,
                           .columns = true,
                           .smooth = true,
                           .eps = true,
                           .quantises = false,
                           .usual_bias = true,
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
