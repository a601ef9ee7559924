// SPDX-License-Identifier: MIT
// act_and_mul: what it takes, its reference, its public functions.
#include "tilewright/act_and_mul.hpp"

#include "ops/act_and_mul/gate_reference.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

void act_and_mul_reference(const RowProblem& p, RowReference& row) {
  const bool interleaved = p.gate == GateMode::kInterleaved;
  for (int64_t i = 0; i < p.n; ++i) {
    const double gate = row.x[static_cast<size_t>(interleaved ? 2 * i : i)];
    Bounded v = activated(p.activation, clamped(gate, -INFINITY, row.limit), row.alpha);
    if (p.squared) v = multiply_bounded(v, v);
    if (p.gate != GateMode::kNone) {
      const double given = row.x[static_cast<size_t>(interleaved ? 2 * i + 1 : p.n + i)];
      const double up = clamped(given, -row.limit, row.limit) + row.up_offset;
      v = multiply_bounded(v, Bounded{up, kUlpF32 * std::fabs(up)});
    }
    row.y[static_cast<size_t>(i)] = {v.value, v.error};
  }
}

constexpr RowOp kActAndMul{.name = "act_and_mul",
                           .residual = false,
                           .columns = false,
                           .smooth = false,
                           .eps = false,
                           .quantises = false,
                           .gates = true,
                           .reference = &act_and_mul_reference};

RowCall act_and_mul_row_call(const ActAndMulCall& c) {
  return {.x = c.x,
          .out = c.out,
          .scale = c.scale,
          .tensor_scale = c.tensor_scale,
          .quant = c.quant,
          .group = c.group,
          .rounding = c.rounding,
          .activation = c.activation,
          .gate = c.gate,
          .squared = c.squared,
          .limit = c.limit,
          .alpha = c.alpha,
          .up_offset = c.up_offset};
}

RowFunctions act_and_mul_functions() { return {kActAndMul, act_and_mul_operator()}; }

}  // namespace

const Operator& act_and_mul_operator() {
  static const RowOperator kOperator(kActAndMul);
  return kOperator;
}

Status act_and_mul(Context& context, const ActAndMulCall& call, const Exec& exec) {
  return act_and_mul_functions().run(context, act_and_mul_row_call(call), call.recipe, exec);
}
Status act_and_mul_prepare(Context& context, const ActAndMulCall& call, const Exec& exec) {
  return act_and_mul_functions().prepare(context, act_and_mul_row_call(call), call.recipe, exec);
}
Result<QueryResult> act_and_mul_query(Context& context, const ActAndMulCall& call, const Exec& exec) {
  return act_and_mul_functions().query(context, act_and_mul_row_call(call), call.recipe, exec);
}
Result<std::string> act_and_mul_explain(Context& context, const ActAndMulCall& call, const Exec& exec) {
  return act_and_mul_functions().explain(context, act_and_mul_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
