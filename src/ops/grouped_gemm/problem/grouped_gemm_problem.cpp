// SPDX-License-Identifier: MIT
// What follows from a problem: the signature of tuned rows, operations and bytes.
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace tilewright {
namespace {

uint64_t power_of_two_from(int64_t size) { return std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))); }

}  // namespace

double likely_groups(const GroupedGemmProblem& p) {
  const auto groups = static_cast<double>(p.gemm.batch);
  return groups * -std::expm1(static_cast<double>(p.likely_rows()) * std::log1p(-1 / std::max(groups, 1.0 + 1e-9)));
}

int64_t GroupedGemmProblem::likely_rows() const {
  const int64_t most = mode == GroupMode::kMasked ? gemm.m * gemm.batch : mode == GroupMode::kRaggedK ? gemm.k : gemm.m;
  return expected_rows == 0 ? most : std::min(expected_rows, most);
}

GemmBindings GroupedGemmBindings::gemm() const {
  GemmBindings within;
  std::copy_n(pointers.begin(), within.pointers.size(), within.pointers.begin());
  within.scalars = scalars;
  return within;
}

ProblemSignature grouped_gemm_signature(const GroupedGemmProblem& p) {
  ProblemSignature s = gemm_signature(p.gemm);
  const std::string mode = fmt::format("mode={}{}{}:", kGroupModeNames[static_cast<int>(p.mode)],
                                       p.has_gather ? ".gather" : "", p.has_scatter ? ".scatter" : "");
  s.core = mode + s.core;
  if (!s.other_core.empty()) s.other_core = mode + s.other_core;
  const GemmProblem& g = p.gemm;
  s.sizes = fmt::format("m={}:n={}:k={}:groups={}:rows={}", g.m, g.n, g.k, g.batch, p.likely_rows());
  // Of T and of a group's most rows only the powers of two matter, and of how many rows there are likely to be.
  s.bucket = p.mode == GroupMode::kRaggedK
                 ? fmt::format("m={}:n={}:k<={}:groups={}", g.m, g.n, power_of_two_from(g.k), g.batch)
                 : fmt::format("m<={}:n={}:k={}:groups={}:rows<={}", power_of_two_from(g.m), g.n, g.k, g.batch,
                               power_of_two_from(p.likely_rows()));
  return s;
}

double grouped_gemm_operations(const GroupedGemmProblem& p) {
  const double rows = static_cast<double>(p.likely_rows()), n = static_cast<double>(p.gemm.n);
  return 2 * rows * n * static_cast<double>(p.mode == GroupMode::kRaggedK ? p.gemm.m : p.gemm.k);
}

double grouped_gemm_bytes_moved(const GroupedGemmProblem& p) {
  if (p.mode == GroupMode::kRaggedK) return gemm_bytes_moved(p.gemm);
  // A GEMM of all rows, and the weights, scales and biases of the other groups that have any.
  GemmProblem rows = p.gemm;
  rows.m = p.likely_rows(), rows.batch = 1;
  GemmProblem weights = rows;
  weights.m = 0;
  weights.scale_a = {};
  weights.c = {};
  weights.step_count = 0;
  return gemm_bytes_moved(rows) + gemm_bytes_moved(weights) * std::max(0.0, likely_groups(p) - 1);
}

}  // namespace tilewright
