// SPDX-License-Identifier: MIT
// dequantize: what it takes, its reference, its public functions.
#include "tilewright/dequantize.hpp"

#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

// f32 products, rounded once: nothing may differ.
void dequantize_reference(const RowProblem& p, RowReference& row) {
  for (size_t i = 0; i < row.x.size(); ++i) {
    const size_t group = has_groups(p.quant) ? i / static_cast<size_t>(p.group) : 0;
    row.y[i] = {static_cast<float>(row.x[i]) * static_cast<float>(row.scales[group]), 0};
  }
}

constexpr RowOp kDequantize{.name = "dequantize",
                            .residual = false,
                            .columns = false,
                            .smooth = false,
                            .eps = false,
                            .quantises = false,
                            .dequantises = true,
                            .reference = &dequantize_reference};

RowCall dequantize_row_call(const DequantizeCall& c) {
  RowCall call;
  call.x = c.x, call.out = c.out, call.scale = c.scale;
  call.quant = c.quant, call.group = c.group, call.tensor_scale = c.tensor_scale;
  return call;
}

RowFunctions dequantize_functions() { return {kDequantize, dequantize_operator()}; }

}  // namespace

const Operator& dequantize_operator() {
  static const RowOperator kOperator(kDequantize);
  return kOperator;
}

Status dequantize(Context& context, const DequantizeCall& call, const Exec& exec) {
  return dequantize_functions().run(context, dequantize_row_call(call), call.recipe, exec);
}
Status dequantize_prepare(Context& context, const DequantizeCall& call, const Exec& exec) {
  return dequantize_functions().prepare(context, dequantize_row_call(call), call.recipe, exec);
}
Result<QueryResult> dequantize_query(Context& context, const DequantizeCall& call, const Exec& exec) {
  return dequantize_functions().query(context, dequantize_row_call(call), call.recipe, exec);
}
Result<std::string> dequantize_explain(Context& context, const DequantizeCall& call, const Exec& exec) {
  return dequantize_functions().explain(context, dequantize_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
