// SPDX-License-Identifier: MIT
#include "ops/row/problem/row_backward.hpp"

#include <fmt/format.h>

#include "core/fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_backward(const RowOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace

Status validate_backward(const RowOp& op, const RowProblem& p) {
  const RowBackwardProblem& g = p.gradients;
  const std::pair<const char*, DType> sums[] = {{"dweight", g.weight}, {"dbias", g.bias}};
  for (const auto& [name, dtype] : {std::pair{"dresidual", g.added.dtype}, sums[0], sums[1]}) {
    if (dtype != DType::kNone && !op.norm_backward()) {
      return refuse_backward(op, "argument '{}' is none of this operator's", name);
    }
  }
  if (!op.backward) return {};
  if (p.bias != DType::kNone) return refuse_backward(op, "argument 'bias' is none of this operator's");
  if (p.round_before_weight) return refuse_backward(op, "argument 'round_before_weight' is none of this operator's");
  if (g.added.present() && g.added.dtype != p.out.dtype) {
    return refuse_backward(op, "argument 'dresidual' is {}, expected {}, that of 'dx'", dtype_name(g.added.dtype),
                           dtype_name(p.out.dtype));
  }
  for (const auto& [name, dtype] : sums) {
    if (dtype == DType::kNone || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16) continue;
    return refuse_backward(op, "argument '{}' is {}, allowed: f32, f16, bf16", name, dtype_name(dtype));
  }
  if (g.weight != DType::kNone && p.weight == DType::kNone) {
    return refuse_backward(op, "argument 'dweight' is given without 'weight'");
  }
  return {};
}

std::string print_backward(const RowProblem& p) {
  std::string text;
  if (p.gradients.added.present()) text += ":dresidual=1";
  if (p.gradients.weight != DType::kNone) text += fmt::format(":dweight={}", dtype_name(p.gradients.weight));
  if (p.gradients.bias != DType::kNone) text += fmt::format(":dbias={}", dtype_name(p.gradients.bias));
  return text;
}

bool parse_backward(std::string_view name, std::string_view value, RowProblem& p, Status& s) {
  bool flag = false;
  if (name == "dresidual") {  // of out's type, which may be told later
    s = fields_detail::parse_value(value, flag), p.gradients.added.dtype = flag ? DType::kF32 : DType::kNone;
  } else if (name == "dweight") {
    s = fields_detail::parse_value(value, p.gradients.weight);
  } else if (name == "dbias") {
    s = fields_detail::parse_value(value, p.gradients.bias);
  } else {
    return false;
  }
  return true;
}

}  // namespace tilewright
