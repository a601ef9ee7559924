// SPDX-License-Identifier: MIT
// quantize: what it takes, its reference, its public functions.
#include "tilewright/quantize.hpp"

#include <cmath>
#include <vector>

#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

// f32 products and sums, each rounded: nothing may differ.
void quantize_reference(const RowProblem& p, RowReference& row) {
  std::vector<float> values(row.x.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<float>(row.x[i]);
    values[i] = row.smooth.empty() ? x : x * static_cast<float>(row.smooth[i]);
  }
  for (size_t distance = 1; distance < static_cast<size_t>(p.hadamard); distance *= 2) {
    for (size_t i = 0; i < values.size(); ++i) {
      if ((i & distance) != 0) continue;
      const float a = values[i], b = values[i + distance];
      values[i] = a + b, values[i + distance] = a - b;
    }
  }
  const float factor = p.hadamard == 0 ? 1 : static_cast<float>(1 / std::sqrt(static_cast<double>(p.hadamard)));
  for (size_t i = 0; i < values.size(); ++i) row.y[i] = {values[i] * factor, 0};
}

constexpr RowOp kQuantize{.name = "quantize",
                          .residual = false,
                          .columns = false,
                          .smooth = true,
                          .eps = false,
                          .quantises = true,
                          .reference = &quantize_reference};

RowCall quantize_row_call(const QuantizeCall& c) {
  RowCall call;
  call.x = c.x, call.out = c.out, call.scale = c.scale, call.smooth = c.smooth;
  call.quant = c.quant, call.group = c.group, call.rounding = c.rounding;
  call.hadamard = c.hadamard, call.random_state = c.random_state;
  call.tensor_scale = c.tensor_scale, call.find_tensor_scale = c.find_tensor_scale;
  return call;
}

RowFunctions quantize_functions() { return {kQuantize, quantize_operator()}; }

}  // namespace

const Operator& quantize_operator() {
  static const RowOperator kOperator(kQuantize);
  return kOperator;
}

Status quantize(Context& context, const QuantizeCall& call, const Exec& exec) {
  return quantize_functions().run(context, quantize_row_call(call), call.recipe, exec);
}
Status quantize_prepare(Context& context, const QuantizeCall& call, const Exec& exec) {
  return quantize_functions().prepare(context, quantize_row_call(call), call.recipe, exec);
}
Result<QueryResult> quantize_query(Context& context, const QuantizeCall& call, const Exec& exec) {
  return quantize_functions().query(context, quantize_row_call(call), call.recipe, exec);
}
Result<std::string> quantize_explain(Context& context, const QuantizeCall& call, const Exec& exec) {
  return quantize_functions().explain(context, quantize_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
