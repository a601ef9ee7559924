// SPDX-License-Identifier: MIT
// A grouped problem as one line of text and back:
//
//   mode=masked:groups=8:rows=64:m=128:n=4096:k=4096:a=bf16:layout=rcr
//
// mode=contiguous, extents=sizes, align_rows=1 and rows=0 go without saying; gather and scatter give the rows of A and of D.
// The rest is the text of the GEMM within; what all groups share has no batch stride, whatever stands there.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "core/fields.hpp"
#include "ops/grouped_gemm/problem/grouped_gemm_problem.hpp"

namespace tilewright {
namespace {

Status refuse_line(std::string message) {
  return Status(StatusCode::kInvalidArgument, "grouped_gemm problem text: " + std::move(message));
}

Status parse_count(std::string_view name, std::string_view text, int64_t& out) {
  const Status s = fields_detail::parse_integer(text, 0, int64_t{1} << 48, out);
  return s ? s : refuse_line(fmt::format("'{}': {}", name, s.message()));
}

// Strides that a text does not spell out are these: [batch, rows, columns], contiguous.
void batch_operand(OperandProblem& o, int64_t rows, int64_t columns) {
  const bool usual = o.stride_m == (rows == 1 ? 0 : columns) && o.stride_n == (columns == 1 ? 0 : 1);
  if (o.present() && usual) o.stride_batch = rows * columns;
}

}  // namespace

void share_between_groups(GroupedGemmProblem& p) {
  GemmProblem& g = p.gemm;
  if (p.mode == GroupMode::kMasked) return;
  g.stride_a_batch = 0;
  if (p.mode == GroupMode::kRaggedK) {
    g.stride_b_batch = 0;
    return;
  }
  g.stride_d_batch = g.scale_a.stride_batch = g.c.stride_batch = 0;
  for (StepProblem& step : g.steps) step.operand.stride_batch = 0;
}

GemmProblem as_batched(const GroupedGemmProblem& p) {
  GemmProblem g = p.gemm;
  if (p.mode == GroupMode::kMasked || g.batch == 1) return g;
  g.stride_a_batch = g.m * g.k;
  if (p.mode == GroupMode::kRaggedK) {
    g.stride_b_batch = g.k * g.n;
    return g;
  }
  // One D for each group, as far apart as the strides of one reach.
  g.stride_d_batch = std::max(g.m * std::max(std::abs(g.stride_d_m), int64_t{1}),
                              g.out_n() * std::max(std::abs(g.stride_d_n), int64_t{1}));
  const ScaleCounts counts = scale_counts(g.scale_a, g.m, g.k);
  if (g.scale_a.blocked()) g.scale_a.stride_batch = counts.outer * counts.k;
  batch_operand(g.c, g.m, g.n);
  for (int i = 0; i < g.step_count; ++i) batch_operand(g.steps[i].operand, g.m, g.out_n());
  return g;
}

std::string print_grouped_gemm_problem(const GroupedGemmProblem& p) {
  std::string text = fmt::format("mode={}:groups={}", kGroupModeNames[static_cast<int>(p.mode)], p.gemm.batch);
  const auto add = [&text](const char* name, int64_t value) { text += fmt::format(":{}={}", name, value); };
  if (p.extents != GroupExtents::kSizes) {
    text += fmt::format(":extents={}", kGroupExtentsNames[static_cast<int>(p.extents)]);
  }
  if (p.alignment != 1) add("align_rows", p.alignment);
  if (p.has_gather) add("gather", p.a_rows);
  if (p.has_scatter) add("scatter", p.d_rows);
  if (p.has_status) add("status", 1);
  if (p.expected_rows != 0) add("rows", p.expected_rows);
  // The groups are the batch, which has been named.
  GemmProblem within = as_batched(p);
  std::string rest = print_gemm_problem(within);
  if (const std::string batch = fmt::format(":batch={}", p.gemm.batch); rest.find(batch + ":") != std::string::npos) {
    rest.erase(rest.find(batch + ":"), batch.size());
  }
  return text + ":" + rest;
}

Result<GroupedGemmProblem> parse_grouped_gemm_problem(std::string_view text) {
  GroupedGemmProblem p;
  std::string rest;
  int64_t groups = -1, has_status = 0;
  bool has_layout = false;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equal = std::min(item.find('='), item.size());
    const std::string_view name = item.substr(0, equal), value = item.substr(std::min(equal + 1, item.size()));
    Status s;
    if (name == "mode") {
      s = fields_detail::parse_value(value, p.mode);
    } else if (name == "extents") {
      s = fields_detail::parse_value(value, p.extents);
    } else if (name == "groups") {
      s = parse_count(name, value, groups);
    } else if (name == "align_rows") {
      s = parse_count(name, value, p.alignment);
    } else if (name == "gather") {
      s = parse_count(name, value, p.a_rows), p.has_gather = 1;
    } else if (name == "scatter") {
      s = parse_count(name, value, p.d_rows), p.has_scatter = 1;
    } else if (name == "status") {
      s = parse_count(name, value, has_status);
    } else if (name == "rows") {
      s = parse_count(name, value, p.expected_rows);
    } else if (name == "batch") {
      s = refuse_line("'batch' is called 'groups' here");
    } else {
      has_layout = has_layout || name == "layout";
      rest += fmt::format("{}:", item);
    }
    if (!s) return s;
  }
  if (groups < 0) return refuse_line("'groups' is missing");
  // Of a weight gradient both factors lie as activations do, [T, M] and [T, N].
  if (!has_layout && p.mode == GroupMode::kRaggedK) rest += "layout=crr:";
  Result<GemmProblem> within = parse_gemm_problem(fmt::format("{}batch={}", rest, groups));
  if (!within) return within.status();
  p.gemm = *within;
  p.has_status = has_status != 0;
  share_between_groups(p);
  if (!p.has_gather) p.a_rows = p.gemm.m;
  if (!p.has_scatter) p.d_rows = p.gemm.m;
  p.stride_sizes = p.has_sizes() ? 1 : 0, p.stride_offsets = p.has_offsets() ? 1 : 0;
  p.stride_gather = p.has_gather, p.stride_scatter = p.has_scatter;
  if (Status s = validate_grouped_gemm_problem(p); !s) return s;
  return p;
}

GroupedGemmProblem resize_grouped_gemm_problem(const GroupedGemmProblem& from, int64_t groups, int64_t m, int64_t n,
                                               int64_t k) {
  GroupedGemmProblem p = from;
  GemmProblem batched = as_batched(from);
  batched.batch = groups;
  // One group has no strides from one to the next: what was a row of each group then is one again.
  p.gemm = resize_gemm_problem(batched, m, n, k);
  share_between_groups(p);
  p.a_rows = from.has_gather ? m + 3 : m;
  p.d_rows = from.has_scatter ? m + 5 : m;
  if (from.expected_rows != 0) p.expected_rows = std::max<int64_t>(1, std::min(from.expected_rows, groups * m / 2));
  return p;
}

}  // namespace tilewright
