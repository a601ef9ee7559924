// SPDX-License-Identifier: MIT
#include "results/result_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "output/numbers.hpp"
#include "problems/problem_arguments.hpp"
#include "results/recipe_text.hpp"

namespace tilewright::cli {
namespace {

std::string peer_name(const std::vector<LayerRecord>& records) {
  for (const LayerRecord& record : records) {
    if (!record.peer.empty()) return record.peer;
  }
  return "";
}

}  // namespace

Table result_table(const ContextImpl& context, const std::vector<LayerRecord>& records) {
  const std::string peer = peer_name(records);
  Table table("rows", {{"layer", "layer"},
                       {"problem", ""},
                       {"tokens", "tokens", Align::kRight},
                       {"n", "N", Align::kRight},
                       {"k", "K", Align::kRight},
                       {"us", "us", Align::kRight},
                       {"spread", ""},
                       {"gflops", "GFLOP/s", Align::kRight},
                       {"limit_frac", "of limit", Align::kRight},
                       {"untuned_us", ""},
                       {"untuned_gain", "untuned", Align::kRight},
                       {"peer", ""},
                       {"peer_us", ""},
                       {"ratio", peer.empty() ? "PyTorch" : peer, Align::kRight},
                       {"ratio_low", ""},
                       {"ratio_high", ""},
                       {"rel_err", "error", Align::kRight},
                       {"recipe", ""},
                       {"short_recipe", "recipe"}});
  for (const LayerRecord& r : records) {
    int64_t tokens = 0, n = 0, k = 0;
    if (const Operator* op = context.find_op(r.op)) {
      if (Result<std::vector<std::byte>> bytes = op->parse_problem(r.problem)) {
        const NamedProblem problem{op, std::move(*bytes), r.layer};
        tokens = problem.size("m"), n = problem.size("n"), k = problem.size("k");
      }
    }
    const double gain = r.us > 0 ? r.untuned_us / r.us : 0;
    table.add({text_cell(r.layer), text_cell(r.problem), count_cell(tokens), count_cell(n), count_cell(k),
               number_cell(r.us, print_significant(r.us, 4)), number_cell(r.spread, print_percent(r.spread)),
               number_cell(r.gflops, print_significant(r.gflops, 4)),
               positive_cell(r.limit_fraction, print_percent(r.limit_fraction)),
               positive_cell(r.untuned_us, print_significant(r.untuned_us, 4)), positive_cell(gain, print_ratio(gain)),
               r.peer.empty() ? absent() : text_cell(r.peer), positive_cell(r.peer_us, print_significant(r.peer_us, 4)),
               positive_cell(r.ratio, print_ratio(r.ratio), ratio_tone(r.ratio_low, r.ratio_high)),
               positive_cell(r.ratio_low, print_ratio(r.ratio_low)),
               positive_cell(r.ratio_high, print_ratio(r.ratio_high)),
               number_cell(r.rel_error, fmt::format("{:.1e}", r.rel_error)), text_cell(r.recipe),
               text_cell(short_recipe(r.recipe))});
  }
  return table;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  int count = 0;
  for (const double value : values) {
    if (value > 0) sum += std::log(value), ++count;
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

Summary summarise(const std::vector<LayerRecord>& records) {
  std::vector<double> gains, ratios, fractions;
  for (const LayerRecord& r : records) {
    if (r.us > 0) gains.push_back(r.untuned_us / r.us);
    ratios.push_back(r.ratio);
    fractions.push_back(r.limit_fraction);
  }
  return {geometric_mean(gains), geometric_mean(ratios), peer_name(records), geometric_mean(fractions)};
}

void add_summary(const Summary& s, Document& document) {
  std::vector<std::string> words;
  auto add = [&](const char* name, double value, const std::string& text) {
    document.fact(name, value > 0 ? Value(value) : Value(), "");
    if (value > 0) words.push_back(text);
  };
  add("geomean_untuned_gain", s.untuned_gain, print_ratio(s.untuned_gain) + " over untuned");
  add("geomean_ratio", s.peer_ratio, print_ratio(s.peer_ratio) + " over " + s.peer);
  add("geomean_limit_frac", s.limit_fraction, print_percent(s.limit_fraction) + " of the measured limit");
  document.fact("peer", s.peer.empty() ? Value() : Value(s.peer),
                words.empty() ? "" : fmt::format("geometric mean: {}", fmt::join(words, ", ")));
}

void add_quarantine_fact(const QuarantineList& list, Document& document) {
  const size_t count = list.entries().size();
  document.fact("quarantined", static_cast<int64_t>(count),
                count == 0 ? ""
                           : fmt::format("{} kernel{} in quarantine: tilewright kernels --quarantined", count,
                                         count == 1 ? "" : "s"));
}

TuneResult result_of(const ContextImpl& context, const LayerRecord& r) {
  TuneResult result;
  result.resumed = true;
  const Operator* op = context.find_op(r.op);
  Result<std::vector<std::byte>> bytes = op != nullptr
                                             ? op->parse_problem(r.problem)
                                             : Result<std::vector<std::byte>>(Status(StatusCode::kNotFound, r.op));
  if (!bytes) {
    result.status = bytes.status();
    return result;
  }
  const NamedProblem problem{op, *bytes, r.layer};
  result.task = {op, std::move(*bytes), problem.label()};
  result.untuned_us = r.untuned_us, result.untuned_recipe = r.untuned_recipe;
  result.row.recipe = r.recipe, result.row.us = r.us, result.row.spread = r.spread, result.row.gflops = r.gflops;
  result.row.untuned_us = r.untuned_us, result.row.rel_error = r.rel_error, result.row.samples = r.samples;
  result.row.library = r.library, result.row.compiler = r.compiler, result.row.date = r.date;
  return result;
}

void add_records(const std::vector<LayerRecord>& records, ReportData& report) {
  report.peer_name = peer_name(records);
  for (size_t i = 0; i < std::min(records.size(), report.rows.size()); ++i) {
    // Both sides of the pairs came from one run; the row's own time from another.
    report.rows[i].peer_us = records[i].us * records[i].ratio;
    report.rows[i].peer_low = records[i].ratio_low, report.rows[i].peer_high = records[i].ratio_high;
    report.rows[i].limit_fraction = records[i].limit_fraction;
  }
}

}  // namespace tilewright::cli
