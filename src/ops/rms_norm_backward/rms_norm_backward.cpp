// SPDX-License-Identifier: MIT
// rms_norm_backward: what it takes, its reference, its public functions.
#include "ops/op_list.hpp"
#include "ops/row/norm.hpp"
#include "ops/row/row_operator.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright {
namespace {

void rms_norm_backward_reference(const RowProblem& p, RowReference& row) {
  norm_gradient_reference(p, row, normalised_by_root(p, row), /*centred=*/false);
}

constexpr RowOp kRmsNormBackward{.name = "rms_norm_backward",
                                 .residual = true,
                                 .columns = true,
                                 .smooth = false,
                                 .eps = true,
                                 .quantises = false,
                                 .second = "dy",
                                 .backward = true,
                                 .reference = &rms_norm_backward_reference};

RowFunctions rms_norm_backward_functions() { return {kRmsNormBackward, rms_norm_backward_operator()}; }

}  // namespace

const Operator& rms_norm_backward_operator() {
  static const RowOperator kOperator(kRmsNormBackward);
  return kOperator;
}

Status rms_norm_backward(Context& context, const RmsNormBackwardCall& call, const Exec& exec) {
  return rms_norm_backward_functions().run(context, norm_backward_row_call(call), call.recipe, exec);
}
Status rms_norm_backward_prepare(Context& context, const RmsNormBackwardCall& call, const Exec& exec) {
  return rms_norm_backward_functions().prepare(context, norm_backward_row_call(call), call.recipe, exec);
}
Result<QueryResult> rms_norm_backward_query(Context& context, const RmsNormBackwardCall& call, const Exec& exec) {
  return rms_norm_backward_functions().query(context, norm_backward_row_call(call), call.recipe, exec);
}
Result<std::string> rms_norm_backward_explain(Context& context, const RmsNormBackwardCall& call, const Exec& exec) {
  return rms_norm_backward_functions().explain(context, norm_backward_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
