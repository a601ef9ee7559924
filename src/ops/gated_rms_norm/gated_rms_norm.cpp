// SPDX-License-Identifier: MIT
// gated_rms_norm: what it takes, its reference, its public functions.
#include "tilewright/gated_rms_norm.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/gemm/instance/activation_reference.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

// As rms_norm's, of values that err where they are gated first.
void gated_rms_norm_reference(const RowProblem& p, RowReference& row) {
  std::vector<Bounded> v(row.x.size()), gate(row.x.size());
  double squares = 0, fourths = 0, lost = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = {row.x[i], 0};
    gate[i] = activate(Activation::kSilu, Bounded{row.second[i], 0}, 0, 0);
    if (p.gate_first) v[i] = multiply_bounded(v[i], gate[i]);
    const double square = v[i].value * v[i].value;
    squares += square, fourths += square * square;
    lost += (2 * std::fabs(v[i].value) + v[i].error) * v[i].error;
  }
  lost += accumulation_bound(DType::kF32, p.n, std::sqrt(fourths), squares);
  const auto n = static_cast<double>(p.n);
  const double mean = squares / n + row.eps;
  const double inverse = 1 / std::sqrt(mean);
  // The root of a mean that is too small by what was lost.
  const double least = std::max(mean - lost / n, mean / 4);
  const double relative = (squares > 0 ? 0.5 * lost / n / least : 0) + 4 * kUlpF32;
  for (size_t i = 0; i < v.size(); ++i) {
    Bounded y = multiply_bounded(v[i], Bounded{inverse, inverse * relative});
    if (!row.weight.empty()) y = multiply_bounded(y, Bounded{row.weight[i], 0});
    if (!p.gate_first) y = multiply_bounded(y, gate[i]);
    row.y[i] = {y.value, y.error};
  }
}

constexpr RowOp kGatedRmsNorm{.name = "gated_rms_norm",
                              .residual = true,
                              .columns = true,
                              .smooth = false,
                              .eps = true,
                              .quantises = false,
                              .second = "z",
                              .gates_norm = true,
                              .reference = &gated_rms_norm_reference};

Status refuse_gated(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, "gated_rms_norm: " + message);
}

// The last dimension as groups: [..., count, length / count].
void split_last(TensorView& t, int64_t count) {
  if (!t.defined()) return;
  const auto last = static_cast<size_t>(t.rank - 1);
  const int64_t each = t.shape[last] / count;
  t.shape[last + 1] = each, t.stride[last + 1] = t.stride[last];
  t.shape[last] = count, t.stride[last] *= each;
  ++t.rank;
}

Status gated_rms_norm_row_call(const GatedRmsNormCall& c, RowCall& row) {
  row = {.x = c.x,
         .residual = c.z,
         .out = c.out,
         .weight = c.weight,
         .scale = c.scale,
         .tensor_scale = c.tensor_scale,
         .eps = c.eps,
         .quant = c.quant,
         .group = c.group,
         .rounding = c.rounding,
         .gate_first = !c.norm_before_gate};
  if (c.norm_group == 0 || c.x.rank < 1) return {};
  const int64_t n = c.x.shape[static_cast<size_t>(c.x.rank - 1)];
  if (c.norm_group < 0 || n % c.norm_group != 0) {
    return refuse_gated(fmt::format("argument 'norm_group' is {}, allowed: what divides {}", c.norm_group, n));
  }
  const int64_t count = n / c.norm_group;
  if (count <= 1) return {};
  if (c.x.rank == kMaxRank)
    return refuse_gated(fmt::format("argument 'x' has rank {}, allowed: 1 to {}", kMaxRank, kMaxRank - 1));
  if (c.quant == Quantisation::kRow) {
    return refuse_gated(
        fmt::format("argument 'quant' is row, allowed with {} groups of a row: none, tensor, group", count));
  }
  for (const TensorView* t : {&c.z, &c.out}) {
    if (t->defined() && (t->rank != c.x.rank || t->shape[static_cast<size_t>(t->rank - 1)] != n)) {
      return refuse_gated(fmt::format("argument '{}' has another shape than 'x'", t == &c.z ? "z" : "out"));
    }
  }
  const bool groups = c.quant == Quantisation::kGroup;
  const int64_t shared = c.group != 0 ? c.group : usual_row_group(c.scale.dtype);
  if (groups && (c.norm_group % shared != 0 || c.scale.rank != c.x.rank ||
                 c.scale.shape[static_cast<size_t>(c.scale.rank - 1)] != n / shared)) {
    return refuse_gated(fmt::format("argument 'scale' wants {} columns, of groups of {} within those of {}", n / shared,
                                    shared, c.norm_group));
  }
  for (TensorView* t : {&row.x, &row.residual, &row.out}) split_last(*t, count);
  if (groups) split_last(row.scale, count);
  row.weight_groups = count;
  return {};
}

RowFunctions gated_rms_norm_functions() { return {kGatedRmsNorm, gated_rms_norm_operator()}; }

}  // namespace

const Operator& gated_rms_norm_operator() {
  static const RowOperator kOperator(kGatedRmsNorm);
  return kOperator;
}

Status gated_rms_norm(Context& context, const GatedRmsNormCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = gated_rms_norm_row_call(call, row); !s) return s;
  return gated_rms_norm_functions().run(context, row, call.recipe, exec);
}
Status gated_rms_norm_prepare(Context& context, const GatedRmsNormCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = gated_rms_norm_row_call(call, row); !s) return s;
  return gated_rms_norm_functions().prepare(context, row, call.recipe, exec);
}
Result<QueryResult> gated_rms_norm_query(Context& context, const GatedRmsNormCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = gated_rms_norm_row_call(call, row); !s) return s;
  return gated_rms_norm_functions().query(context, row, call.recipe, exec);
}
Result<std::string> gated_rms_norm_explain(Context& context, const GatedRmsNormCall& call, const Exec& exec) {
  RowCall row;
  if (Status s = gated_rms_norm_row_call(call, row); !s) return s;
  return gated_rms_norm_functions().explain(context, row, call.recipe, exec);
}

}  // namespace tilewright
