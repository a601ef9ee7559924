// SPDX-License-Identifier: MIT
// act_and_mul_backward: what it takes, its reference, its public functions.
#include "ops/act_and_mul/gate_reference.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"
#include "tilewright/act_and_mul.hpp"

namespace tilewright {
namespace {

// The slope of an activation; silu is x sigmoid(alpha x).
double slope_of(Activation activation, double x, double alpha) {
  const auto gate = [](double t) { return 1 / (1 + std::exp(-t)); };
  switch (activation) {
    case Activation::kRelu: return std::isnan(x) ? x : x > 0 ? 1 : 0;
    case Activation::kGelu: return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    case Activation::kGeluTanh: {
      constexpr double kTwice = 2 * 0.7978845608028654;
      const double by = gate(kTwice * (x + 0.044715 * x * x * x));
      return by + x * by * (1 - by) * kTwice * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::kSilu: return gate(alpha * x) * (1 + alpha * x * gate(-alpha * x));
    case Activation::kSigmoid: return gate(x) * gate(-x);
    case Activation::kTanh: return 1 - std::tanh(x) * std::tanh(x);
    case Activation::kHardswish: return std::isnan(x) ? x : x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1;
    default: return 1;
  }
}

// In f32. Slopes are at most 1.5 and made of factors that are: each logistic function errs by 4 u and what its argument's two roundings
// move it, 2 u |t| 2^-t, which is less than 2 u; x times such a one by less than 8 u where it is not small.
Bounded slope_bounded(Activation activation, double x, double alpha) {
  const double slope = slope_of(activation, x, alpha);
  if (activation == Activation::kNone || activation == Activation::kRelu) return {slope, 0};
  return {slope, 32 * kUlpF32};
}

void act_and_mul_backward_reference(const RowProblem& p, RowReference& row) {
  const bool interleaved = p.gate == GateMode::kInterleaved;
  for (int64_t i = 0; i < p.n; ++i) {
    const auto at_gate = static_cast<size_t>(interleaved ? 2 * i : i);
    const auto at_up = static_cast<size_t>(interleaved ? 2 * i + 1 : p.n + i);
    const double gate = row.x[at_gate], cut = clamped(gate, -INFINITY, row.limit);
    const Bounded dy{row.second[static_cast<size_t>(i)], 0};
    Bounded v = activated(p.activation, cut, row.alpha), slope = slope_bounded(p.activation, cut, row.alpha);
    if (p.squared) slope = multiply_bounded(Bounded{2 * v.value, 2 * v.error}, slope), v = multiply_bounded(v, v);
    if (gate > row.limit) slope = {0, 0};
    Bounded of_gate = multiply_bounded(dy, slope);
    if (p.gate != GateMode::kNone) {
      const double up = row.x[at_up], factor = clamped(up, -row.limit, row.limit) + row.up_offset;
      of_gate = multiply_bounded(of_gate, Bounded{factor, kUlpF32 * std::fabs(factor)});
      const Bounded of_up = std::fabs(up) > row.limit ? Bounded{0, 0} : multiply_bounded(dy, v);
      row.y[at_up] = {of_up.value, of_up.error};
    }
    row.y[at_gate] = {of_gate.value, of_gate.error};
  }
}

constexpr RowOp kActAndMulBackward{.name = "act_and_mul_backward",
                                   .residual = true,
                                   .columns = false,
                                   .smooth = false,
                                   .eps = false,
                                   .quantises = false,
                                   .gates = true,
                                   .second = "dy",
                                   .backward = true,
                                   .reference = &act_and_mul_backward_reference};

RowCall act_and_mul_backward_row_call(const ActAndMulBackwardCall& c) {
  return {.x = c.x,
          .residual = c.dy,
          .out = c.dx,
          .activation = c.activation,
          .gate = c.gate,
          .squared = c.squared,
          .limit = c.limit,
          .alpha = c.alpha,
          .up_offset = c.up_offset};
}

RowFunctions act_and_mul_backward_functions() { return {kActAndMulBackward, act_and_mul_backward_operator()}; }

}  // namespace

const Operator& act_and_mul_backward_operator() {
  static const RowOperator kOperator(kActAndMulBackward);
  return kOperator;
}

Status act_and_mul_backward(Context& context, const ActAndMulBackwardCall& call, const Exec& exec) {
  return act_and_mul_backward_functions().run(context, act_and_mul_backward_row_call(call), call.recipe, exec);
}
Status act_and_mul_backward_prepare(Context& context, const ActAndMulBackwardCall& call, const Exec& exec) {
  return act_and_mul_backward_functions().prepare(context, act_and_mul_backward_row_call(call), call.recipe, exec);
}
Result<QueryResult> act_and_mul_backward_query(Context& context, const ActAndMulBackwardCall& call, const Exec& exec) {
  return act_and_mul_backward_functions().query(context, act_and_mul_backward_row_call(call), call.recipe, exec);
}
Result<std::string> act_and_mul_backward_explain(Context& context, const ActAndMulBackwardCall& call,
                                                 const Exec& exec) {
  return act_and_mul_backward_functions().explain(context, act_and_mul_backward_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
