// SPDX-License-Identifier: MIT
// elementwise: what it takes, its reference, its public functions.
#include "tilewright/elementwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"
#include "tile/common/quantise.hpp"

namespace tilewright {
namespace {

void elementwise_reference(const RowProblem& p, RowReference& row) {
  const bool codes = is_quantised(p.out.dtype);
  const double limit = codes ? quantised_limit(p.out.dtype) : 0;
  for (size_t i = 0; i < row.x.size(); ++i) {
    double y = row.x[i];
    const double b = p.arithmetic == Arithmetic::kNone ? 0 : row.second[p.single ? 0 : i];
    if (p.arithmetic == Arithmetic::kAdd) y += b;
    if (p.arithmetic == Arithmetic::kMul) y *= b;
    const double error = p.arithmetic == Arithmetic::kNone ? 0 : kUlpF32 * std::fabs(y);
    if (codes) y = std::clamp(y, p.out.dtype == DType::kI8 ? -128 : -limit, limit);
    row.y[i] = {y, error};
  }
}

constexpr RowOp kElementwise{.name = "elementwise",
                             .residual = true,
                             .columns = false,
                             .smooth = false,
                             .eps = false,
                             .quantises = false,
                             .second = "b",
                             .arithmetic = true,
                             .reference = &elementwise_reference};

// b with x's dimensions: those that it lacks, or has one element of, have stride 0.
Status broadcast_second(const TensorView& x, TensorView& b) {
  if (!b.defined() || b.layout != Layout::kStrided) return {};
  if (b.rank > x.rank) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("elementwise: argument 'b' has rank {}, allowed: up to {}, that of 'x'", b.rank, x.rank));
  }
  const auto lacks = static_cast<size_t>(x.rank - b.rank);
  TensorView wide = b;
  wide.rank = x.rank;
  for (size_t i = 0; i < static_cast<size_t>(x.rank); ++i) {
    const bool last = i + 1 == static_cast<size_t>(x.rank);
    const int64_t size = i < lacks ? 1 : b.shape[i - lacks];
    const bool spreads = size == 1 && !last;
    wide.shape[i] = spreads ? x.shape[i] : size;
    wide.stride[i] = size == 1 && !last ? 0 : i < lacks ? 1 : b.stride[i - lacks];
  }
  b = wide;
  return {};
}

Status elementwise_row_call(const ElementwiseCall& c, RowCall& row) {
  row = {.x = c.x, .residual = c.b, .out = c.out, .arithmetic = c.arithmetic};
  return broadcast_second(row.x, row.residual);
}

RowFunctions elementwise_functions() { return {kElementwise, elementwise_operator()}; }

}  // namespace

const Operator& elementwise_operator() {
  static const RowOperator kOperator(kElementwise);
  return kOperator;
}

Status elementwise(Context& context, const ElementwiseCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = elementwise_row_call(call, row); !s) return s;
  return elementwise_functions().run(context, row, call.recipe, exec);
}
Status elementwise_prepare(Context& context, const ElementwiseCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = elementwise_row_call(call, row); !s) return s;
  return elementwise_functions().prepare(context, row, call.recipe, exec);
}
Result<QueryResult> elementwise_query(Context& context, const ElementwiseCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = elementwise_row_call(call, row); !s) return s;
  return elementwise_functions().query(context, row, call.recipe, exec);
}
Result<std::string> elementwise_explain(Context& context, const ElementwiseCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = elementwise_row_call(call, row); !s) return s;
  return elementwise_functions().explain(context, row, call.recipe, exec);
}

}  // namespace tilewright
