// SPDX-License-Identifier: MIT
#include "ops/row/problem/row_loss.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/fields.hpp"

namespace tilewright {
namespace {

constexpr int64_t kUsualIgnoreIndex = RowLossProblem().ignore_index;

template <class... Args>
Status refuse_loss(const RowOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace

void add_loss(RowProblem& p) { p.loss.target.dtype = DType::kI32, p.loss.loss.dtype = DType::kF32; }

Status validate_loss(const RowOp& op, const RowProblem& p) {
  if (!op.loses) return {};
  if (p.loss.target.dtype != DType::kI32) {
    return refuse_loss(op, "argument 'target' is {}, allowed: i32", dtype_name(p.loss.target.dtype));
  }
  if (p.loss.loss.dtype != DType::kF32) {
    return refuse_loss(op, "argument 'loss' is {}, allowed: f32", dtype_name(p.loss.loss.dtype));
  }
  if (p.loss.lse.present() && p.loss.lse.dtype != DType::kF32) {
    return refuse_loss(op, "argument 'lse' is {}, allowed: f32", dtype_name(p.loss.lse.dtype));
  }
  if (p.n < 1 && p.rows() > 0) return refuse_loss(op, "size n is {}, allowed: 1 and above", p.n);
  if (p.n > std::numeric_limits<int32_t>::max()) return refuse_loss(op, "size n is {}, allowed: below 2^31", p.n);
  return {};
}

Status check_loss_call(const RowOp& op, const RowCall& call) {
  if (!(call.smoothing >= 0 && call.smoothing <= 1)) {
    return refuse_loss(op, "argument 'label_smoothing' is {}, allowed: 0 to 1", call.smoothing);
  }
  if (!(call.z >= 0)) return refuse_loss(op, "argument 'z_loss' is {}, allowed: 0 and above", call.z);
  const TensorView& factor = call.factor;
  if (!factor.defined()) return {};
  if (factor.dtype == DType::kF32 && factor.numel() == 1 && factor.device == call.x.device) return {};
  return refuse_loss(op, "argument 'factor' is {} elements of {} on {}, expected one of f32 on {}", factor.numel(),
                     dtype_name(factor.dtype), to_string(factor.device), to_string(call.x.device));
}

std::string print_loss(const RowProblem& p) {
  std::string text;
  if (!p.out.present()) text += ":gradient=0";
  if (p.loss.lse.present()) text += ":lse=1";
  if (p.loss.factor) text += ":factor=1";
  if (p.loss.ignore_index != kUsualIgnoreIndex) text += fmt::format(":ignore_index={}", p.loss.ignore_index);
  return text;
}

bool parse_loss(std::string_view name, std::string_view value, RowProblem& p, Status& s) {
  bool flag = false;
  if (name == "lse") {
    s = fields_detail::parse_value(value, flag), p.loss.lse.dtype = flag ? DType::kF32 : DType::kNone;
  } else if (name == "factor") {
    s = fields_detail::parse_value(value, flag), p.loss.factor = flag;
  } else if (name == "ignore_index") {
    s = fields_detail::parse_value(value, p.loss.ignore_index);
  } else {
    return false;
  }
  return true;
}

}  // namespace tilewright
