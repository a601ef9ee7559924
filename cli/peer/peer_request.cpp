// SPDX-License-Identifier: MIT
#include "peer/peer_request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/row/problem/row_problem.hpp"

namespace tilewright::cli {
namespace {

// Weights of fewer bits than A, scaled by rows or by groups of a row.
bool is_weight_only(const GemmProblem& p) {
  const bool bf16 = p.a_dtype == DType::kBf16;  // beside f16 PyTorch has reference loops only
  const bool nibbles = p.b_dtype == DType::kU4 || p.b_dtype == DType::kI4;
  if (!bf16 || p.scale_a.present() || !p.scale_b.present()) return false;
  if (nibbles) return p.scale_b.blocked() && p.scale_b.outer == 1;
  return p.b_dtype == DType::kI8 && !p.scale_b.blocked() && !p.zero_b.present();
}

// Those of scripts/peer_torch_rows.py.
constexpr std::string_view kRowOperators[] = {"rms_norm",
                                              "layer_norm",
                                              "act_and_mul",
                                              "rms_norm_backward",
                                              "layer_norm_backward",
                                              "act_and_mul_backward",
                                              "quantize",
                                              "rope",
                                              "softmax",
                                              "cross_entropy"};

Status row_request(const Operator& op, ProblemRef problem, PeerRequest& request) {
  const RowProblem& p = problem_cast<RowProblem>(problem);
  RowProblem plain = p;
  set_contiguous(plain);
  if (!std::ranges::equal(erase(plain), problem)) {
    return Status(StatusCode::kUnsupported, "peers have rows one after another");
  }
  request.m = p.rows(), request.n = p.n;
  request.dtype = request.weight = dtype_name(p.x.dtype);
  request.rows = fmt::format("{}:{}", op.name(), op.problem_text(problem));
  // The separator of a request's fields is another.
  std::ranges::replace(request.rows, ':', ';');
  return {};
}

}  // namespace

Status peer_request(const Operator& op, ProblemRef problem, PeerRequest& request) {
  if (std::ranges::find(kRowOperators, op.name()) != std::end(kRowOperators)) return row_request(op, problem, request);
  if (op.name() != "gemm") return Status(StatusCode::kUnsupported, fmt::format("no peer for operator '{}'", op.name()));
  const GemmProblem& p = problem_cast<GemmProblem>(problem);
  const bool plain_epilogue = !p.c.present() && !p.bias.present() && p.step_count == 0 && !p.has_alpha &&
                              p.activation == Activation::kNone && p.gate == GateMode::kNone;
  const bool weight = p.b_packed || (p.stride_b_k == 1 && p.stride_b_n == p.k);
  if (!(check_plain_product(p) || is_weight_only(p)) || p.batch != 1 || !plain_epilogue || !weight ||
      p.stride_a_k != 1 || p.stride_d_n != 1) {
    return Status(StatusCode::kUnsupported, "peers multiply matrices; this problem is another function");
  }
  request.m = p.m, request.n = p.n, request.k = p.k;
  request.dtype = dtype_name(p.a_dtype);
  request.weight = dtype_name(p.b_dtype);
  request.group = p.scale_b.blocked() ? p.scale_b.k : 0;
  request.packed = p.b_packed != 0;
  request.scaled = p.scale_a.present() || p.scale_b.present();
  return {};
}

}  // namespace tilewright::cli
