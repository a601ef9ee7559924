// SPDX-License-Identifier: MIT
// layer_norm_backward: what it takes, its reference, its public functions.
#include "ops/op_list.hpp"
#include "ops/row/norm.hpp"
#include "ops/row/row_operator.hpp"
#include "tilewright/layer_norm.hpp"

namespace tilewright {
namespace {

void layer_norm_backward_reference(const RowProblem& p, RowReference& row) {
  norm_gradient_reference(p, row, normalised_by_deviation(p, row), /*centred=*/true);
}

constexpr RowOp kLayerNormBackward{.name = "layer_norm_backward",
                                   .residual = true,
                                   .columns = true,
                                   .smooth = false,
                                   .eps = true,
                                   .quantises = false,
                                   .second = "dy",
                                   .backward = true,
                                   .reference = &layer_norm_backward_reference};

RowFunctions layer_norm_backward_functions() { return {kLayerNormBackward, layer_norm_backward_operator()}; }

}  // namespace

const Operator& layer_norm_backward_operator() {
  static const RowOperator kOperator(kLayerNormBackward);
  return kOperator;
}

Status layer_norm_backward(Context& context, const LayerNormBackwardCall& call, const Exec& exec) {
  return layer_norm_backward_functions().run(context, norm_backward_row_call(call), call.recipe, exec);
}
Status layer_norm_backward_prepare(Context& context, const LayerNormBackwardCall& call, const Exec& exec) {
  return layer_norm_backward_functions().prepare(context, norm_backward_row_call(call), call.recipe, exec);
}
Result<QueryResult> layer_norm_backward_query(Context& context, const LayerNormBackwardCall& call, const Exec& exec) {
  return layer_norm_backward_functions().query(context, norm_backward_row_call(call), call.recipe, exec);
}
Result<std::string> layer_norm_backward_explain(Context& context, const LayerNormBackwardCall& call, const Exec& exec) {
  return layer_norm_backward_functions().explain(context, norm_backward_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
