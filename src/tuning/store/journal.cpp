// SPDX-License-Identifier: MIT
#include "tuning/store/journal.hpp"

#include <fmt/format.h>

#include "core/environment.hpp"
#include "core/fields.hpp"

namespace tilewright {
namespace {

std::string task_key(std::string_view op, std::string_view problem) { return fmt::format("{}\t{}", op, problem); }

// A later line about the same recipe replaces the earlier one.
void put(std::vector<CandidateResult>& candidates, CandidateResult candidate) {
  for (CandidateResult& known : candidates) {
    if (known.recipe == candidate.recipe) {
      known = std::move(candidate);
      return;
    }
  }
  candidates.push_back(std::move(candidate));
}

CandidateResult candidate_of(const Record& record) {
  CandidateResult c;
  c.recipe = record.get("recipe");
  if (!fields_detail::parse_value(record.get("outcome"), c.outcome).ok()) c.outcome = CandidateOutcome::kSkipped;
  c.reason = record.get("reason");
  c.predicted_us = record.number("predicted_us");
  c.us = record.number("us");
  c.spread = record.number("spread");
  c.rel_error = record.number("rel_error");
  c.worst_ratio = record.number("worst_ratio");
  return c;
}

}  // namespace

std::string tuning_journal_path(std::string_view target) {
  const std::string data = user_data_dir();
  return data.empty() ? "" : fmt::format("{}/tuning/{}.journal", data, target);
}

Journal::Journal(std::string path, const TuningEnvironment& environment, bool fresh, FileAccess access)
    : environment_(environment.id()),
      file_(std::move(path), access, [&](const Record& record) { read(record, fresh); }) {
  if (environment_known_) return;
  append(Record("environment")  // once each, for people
             .set("library", environment.library)
             .set("kernels", environment.kernels)
             .set("compiler", environment.compiler)
             .set("target", environment.target)
             .set("part", environment.part)
             .set("units", int64_t{environment.units}));
}

void Journal::read(const Record& record, bool fresh) {
  if (record.get("env") != environment_) return;
  environment_known_ = true;
  if (fresh) return;
  const std::string key = task_key(record.get("op"), record.get("problem"));
  if (record.verb() == "candidate") {
    put(tasks_[key].result.candidates, candidate_of(record));
  } else if (record.verb() == "task") {
    std::vector<std::string> problems;
    const std::vector<TunedRow> rows =
        parse_tuned_csv(fmt::format("{}\n{}\n", tuned_csv_header(), record.get("row")), file_.path(), problems);
    if (rows.size() != 1) return;
    JournalTask& task = tasks_[key];
    task.finished = true;
    task.result.row = rows[0];
    task.result.untuned_us = record.number("untuned_us");
    task.result.untuned_recipe = record.get("untuned_recipe");
  }
}

const JournalTask* Journal::find(std::string_view op, std::string_view problem) const {
  const auto it = tasks_.find(task_key(op, problem));
  return it == tasks_.end() ? nullptr : &it->second;
}

void Journal::add_candidate(std::string_view op, std::string_view problem, const CandidateResult& c) {
  append(Record("candidate")
             .set("op", op)
             .set("problem", problem)
             .set("recipe", c.recipe)
             .set("outcome", kOutcomeNames[static_cast<int>(c.outcome)])
             .set("reason", c.reason)
             .set("predicted_us", c.predicted_us)
             .set("us", c.us)
             .set("spread", c.spread)
             .set("rel_error", c.rel_error)
             .set("worst_ratio", c.worst_ratio));
}

void Journal::add_task(std::string_view op, std::string_view problem, const TuneResult& result) {
  Result<std::string> row = print_tuned_row(result.row);
  if (!row) return;
  append(Record("task")
             .set("op", op)
             .set("problem", problem)
             .set("label", result.task.label)
             .set("row", *row)
             .set("untuned_us", result.untuned_us)
             .set("untuned_recipe", result.untuned_recipe));
}

void Journal::append(Record record) {
  record.set("env", environment_);
  file_.append(record);
}

}  // namespace tilewright
