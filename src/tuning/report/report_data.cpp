// SPDX-License-Identifier: MIT
// From a tuning run to the report's plain data.
#include <fmt/format.h>

#include <algorithm>

#include "tuning/report/report.hpp"
#include "tuning/report/roofline.hpp"
#include "tuning/store/journal.hpp"

namespace tilewright {
namespace {

// "m=16:n=4096" -> {"M", 16}, {"N", 4096}.
std::vector<std::pair<std::string, int64_t>> sizes_of(std::string_view text) {
  std::vector<std::pair<std::string, int64_t>> sizes;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equal = item.find('=');
    if (equal == std::string_view::npos) continue;
    std::string name(item.substr(0, equal));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    sizes.emplace_back(std::move(name), std::strtoll(std::string(item.substr(equal + 1)).c_str(), nullptr, 10));
  }
  return sizes;
}

// Columns whose value is 1 in every row (a batch that nobody uses) are left out.
void drop_ones(ReportData& data) {
  for (size_t column = data.size_names.size(); column-- > 0;) {
    const bool ones = std::all_of(data.rows.begin(), data.rows.end(), [column](const ReportRow& row) {
      return column < row.sizes.size() && row.sizes[column] == 1;
    });
    if (!ones || data.size_names[column] != "BATCH") continue;
    data.size_names.erase(data.size_names.begin() + static_cast<ptrdiff_t>(column));
    for (ReportRow& row : data.rows) row.sizes.erase(row.sizes.begin() + static_cast<ptrdiff_t>(column));
  }
}

// The instructions that can serve at least one row: other roofs would only confuse.
std::vector<std::string> roofs_for(const DeviceSpec& spec, const std::vector<DType>& dtypes) {
  std::vector<std::string> names;
  if (spec.arch == nullptr) return names;
  for (const MmaSpec& mma : spec.arch->mma) {
    for (const DType dtype : dtypes) {
      if (multiplies(mma, dtype) && std::find(names.begin(), names.end(), peak_name(mma)) == names.end())
        names.push_back(peak_name(mma));
    }
  }
  return names;
}

// Those with a time first, the fastest at the top; the others by the cost model's order.
std::vector<ReportAttempt> attempts_of(const TuneResult& result) {
  std::vector<ReportAttempt> attempts;
  for (const CandidateResult& c : result.candidates) {
    attempts.push_back({c.recipe, kOutcomeNames[static_cast<int>(c.outcome)],
                        c.outcome == CandidateOutcome::kTimed ? c.us : 0, c.predicted_us, c.reason});
  }
  std::stable_sort(attempts.begin(), attempts.end(), [](const ReportAttempt& x, const ReportAttempt& y) {
    if ((x.us > 0) != (y.us > 0)) return x.us > 0;
    return x.us != y.us ? x.us < y.us : x.predicted_us < y.predicted_us;
  });
  return attempts;
}

// Why other families do not serve the problem.
std::vector<std::string> refusals_of(ContextImpl& context, const TuneTask& task, const DeviceSpec& spec) {
  std::vector<std::string> refusals;
  const auto choices = context.dispatcher().choices(*task.op, task.problem, spec, TunedTable(), "", &refusals);
  if (!choices) return {};
  // What is disabled is told by the quarantine, kernel by kernel.
  std::erase_if(refusals, [](const std::string& text) { return text.find(": disabled: ") != std::string::npos; });
  return refusals;
}

}  // namespace

void add_quarantine(const QuarantineList& list, ReportData& data) {
  for (const QuarantineEntry& entry : list.entries()) {
    data.quarantine.push_back({entry.op + " " + entry.problem, entry.recipe, entry.outcome, entry.reason});
  }
}

ReportData report_data(ContextImpl& context, std::span<const TuneResult> results, const DeviceLimits& limits,
                       int units) {
  const DeviceSpec spec = context.spec(units);
  ReportData data;
  data.device_name = spec.name;
  data.part = spec.part;
  data.target = spec.arch != nullptr ? spec.arch->target : "";
  data.units = spec.units;
  data.limits = limits_of_units(context.device().spec(), limits, units);
  std::vector<DType> dtypes;
  for (const TuneResult& result : results) {
    const Operator& op = *result.task.op;
    for (const CandidateResult& c : result.candidates) {
      if (c.outcome == CandidateOutcome::kTimed || c.outcome == CandidateOutcome::kSkipped) continue;
      data.rejections.push_back({result.task.label, c.recipe, kOutcomeNames[static_cast<int>(c.outcome)], c.reason});
    }
    if (!result.status.ok()) {
      data.notes.push_back(fmt::format("{}: no row: {}", result.task.label, result.status.message()));
      continue;
    }
    ReportRow row;
    row.label = result.task.label;
    const auto sizes = sizes_of(op.signature(result.task.problem).sizes);
    if (data.size_names.empty()) {
      for (const auto& [name, value] : sizes) data.size_names.push_back(name);
    }
    for (const auto& [name, value] : sizes) row.sizes.push_back(value);
    row.us = result.row.us;
    row.spread = result.row.spread;
    row.untuned_us = result.untuned_us;
    row.operations = op.operations(result.task.problem);
    row.bytes = op.bytes_moved(result.task.problem);
    row.limit_fraction = roof_of(context.device().spec(), limits, op, result.task.problem, units)
                             .fraction(row.operations, row.bytes, row.us);
    row.rel_error = result.row.rel_error;
    row.samples = result.row.samples;
    row.recipe = result.row.recipe;
    row.untuned_recipe = result.untuned_recipe;
    row.resumed = result.resumed;
    row.attempts = attempts_of(result);
    row.refusals = refusals_of(context, result.task, spec);
    dtypes.push_back(op.multiplied_dtype(result.task.problem));
    data.rows.push_back(std::move(row));
    if (data.facts.empty()) {
      data.facts = {{"library", "tilewright " + result.row.library},
                    {"compiler", result.row.compiler},
                    {"measured", result.row.date}};
    }
  }
  drop_ones(data);
  data.roof_mmas = roofs_for(spec, dtypes);
  return data;
}

}  // namespace tilewright
