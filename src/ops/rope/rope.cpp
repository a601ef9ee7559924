// SPDX-License-Identifier: MIT
// rope: what it takes, its reference, its public functions.
#include "tilewright/rope.hpp"

#include <cmath>

#include "core/tensor/tolerance.hpp"
#include "ops/op_list.hpp"
#include "ops/row/instance/row_instance.hpp"
#include "ops/row/row_operator.hpp"

namespace tilewright {
namespace {

void rope_reference(const RowProblem& p, RowReference& row) {
  const RowRotationProblem& r = p.rotation;
  for (size_t i = 0; i < row.y.size(); ++i) row.y[i] = {row.x[i], 0};
  const auto half = static_cast<size_t>(r.dims / 2);
  for (size_t i = 0; i < half; ++i) {
    size_t first = r.interleaved ? 2 * i : i, second = r.interleaved ? 2 * i + 1 : half + i;
    if (r.sections == RopeSections::kParts && !r.interleaved) {
      const int axis = axis_of_pair(r.section_pairs, r.sections, static_cast<int64_t>(i));
      size_t begin = 0;
      for (int before = 0; before < axis; ++before)
        begin += static_cast<size_t>(r.section_pairs[static_cast<size_t>(before)]);
      first = begin + i, second = first + static_cast<size_t>(r.section_pairs[static_cast<size_t>(axis)]);
    }
    const double a = row.x[first], b = row.x[second], c = row.cosine[i], s = r.inverse ? -row.sine[i] : row.sine[i];
    row.y[first] = {a * c - b * s, epilogue_bound(std::fabs(a * c) + std::fabs(b * s))};
    row.y[second] = {b * c + a * s, epilogue_bound(std::fabs(b * c) + std::fabs(a * s))};
  }
}

constexpr RowOp kRope{.name = "rope",
                      .residual = true,
                      .columns = false,
                      .smooth = false,
                      .eps = false,
                      .quantises = false,
                      .rotates = true,
                      .reference = &rope_reference};

RowCall rope_row_call(const RopeCall& c) {
  return {.x = c.q,
          .residual = c.k,
          .residual_out = c.k_out,
          .out = c.q_out,
          .cosine = c.cos,
          .sine = c.sin,
          .positions = c.positions,
          .interleaved = c.interleaved,
          .inverse = c.inverse,
          .section_pairs = c.sections,
          .sections = c.section_order,
          .cumulative_lengths = c.cumulative_lengths,
          .offsets = c.offsets};
}

RowFunctions rope_functions() { return {kRope, rope_operator()}; }

}  // namespace

const Operator& rope_operator() {
  static const RowOperator kOperator(kRope);
  return kOperator;
}

Status rope(Context& context, const RopeCall& call, const Exec& exec) {
  return rope_functions().run(context, rope_row_call(call), call.recipe, exec);
}
Status rope_prepare(Context& context, const RopeCall& call, const Exec& exec) {
  return rope_functions().prepare(context, rope_row_call(call), call.recipe, exec);
}
Result<QueryResult> rope_query(Context& context, const RopeCall& call, const Exec& exec) {
  return rope_functions().query(context, rope_row_call(call), call.recipe, exec);
}
Result<std::string> rope_explain(Context& context, const RopeCall& call, const Exec& exec) {
  return rope_functions().explain(context, rope_row_call(call), call.recipe, exec);
}

}  // namespace tilewright
