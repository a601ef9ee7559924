// SPDX-License-Identifier: MIT
#include "tuning/store/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/digest.hpp"
#include "core/environment.hpp"
#include "core/fields.hpp"
#include "core/log.hpp"
#include "jit/compiler.hpp"

namespace tilewright {
namespace {

constexpr size_t kChecksumDigits = 8;

std::string task_key(std::string_view op, std::string_view problem) { return fmt::format("{}\t{}", op, problem); }

std::string checksum(std::string_view text) { return digest_of(text).hex().substr(0, kChecksumDigits); }

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

std::string TuningEnvironment::id() const {
  return Digester()
      .update(library)
      .update(kernels)
      .update(compiler)
      .update(target)
      .update(part)
      .update(std::to_string(units))
      .finish()
      .hex()
      .substr(0, 16);
}

TuningEnvironment tuning_environment(ContextImpl& context, int units) {
  const DeviceSpec spec = context.spec(units);
  Digester headers;
  for (const EmbeddedHeader& header : embedded_headers()) headers.update(header.path).update(header.text);
  TuningEnvironment e;
  e.library = TILEWRIGHT_VERSION;
  e.kernels = headers.finish().hex();
  e.compiler = host_compiler().available().ok() ? host_compiler().identity() : "-";
  e.target = spec.arch != nullptr ? spec.arch->target : "";
  e.part = spec.part;
  e.units = spec.units;
  return e;
}

std::string short_compiler_name() {
  if (!host_compiler().available().ok()) return "-";
  const std::string& identity = host_compiler().identity();
  std::string name = identity.substr(0, identity.find(';'));
  std::replace_if(name.begin(), name.end(), [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, ' ');
  return name.empty() ? "-" : name;
}

void quarantine(ContextImpl& context, const Operator& op, const Recipe& recipe, std::string_view reason) {
  for (const RecipeStep& step : recipe.steps) {
    const bool generic = std::any_of(op.families().begin(), op.families().end(), [&step](const KernelFamily* family) {
      return family->generic() && family->name() == step.key.family;
    });
    if (generic) continue;
    context.registry().add(
        {.key = step.key, .priority = Priority::kDisabled, .note = fmt::format("tuner: {}", reason)});
  }
}

std::string tuning_journal_path(std::string_view target) {
  const std::string data = user_data_dir();
  return data.empty() ? "" : fmt::format("{}/tuning/{}.journal", data, target);
}

Journal::Journal(std::string path, const TuningEnvironment& environment, bool fresh)
    : path_(std::move(path)), environment_(environment.id()) {
  if (path_.empty()) {
    problem_ = Status(StatusCode::kIoError, "journal: no home directory and no TILEWRIGHT_DATA_DIR");
    return;
  }
  const size_t slash = path_.rfind('/');
  if (slash != std::string::npos && slash > 0) problem_ = make_folders(path_.substr(0, slash));
  if (Result<std::string> text = read_file(path_)) {
    torn_ = !text->empty() && text->back() != '\n';
    load(*text, fresh);
  }
  if (!problem_.ok()) return;
  file_ = ScopedFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file_) {
    problem_ = Status(StatusCode::kIoError, fmt::format("journal: cannot write {}: {}", path_, std::strerror(errno)));
    return;
  }
  if (environment_known_) return;
  append(Record("environment")  // once each, for people
             .set("library", environment.library)
             .set("kernels", environment.kernels)
             .set("compiler", environment.compiler)
             .set("target", environment.target)
             .set("part", environment.part)
             .set("units", int64_t{environment.units}));
}

void Journal::load(std::string_view text, bool fresh) {
  int damaged = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::string_view body = line.substr(std::min(line.size(), kChecksumDigits + 1));
    if (line.size() <= kChecksumDigits + 1 || line.substr(0, kChecksumDigits) != checksum(body)) {
      ++damaged;
      continue;
    }
    Result<Record> record = Record::parse(body);
    if (!record || record->get("env") != environment_) continue;
    environment_known_ = true;
    if (fresh) return;
    if (record->verb() == "candidate") {
      put(tasks_[task_key(record->get("op"), record->get("problem"))].result.candidates, candidate_of(*record));
    } else if (record->verb() == "task") {
      std::vector<std::string> problems;
      const std::vector<TunedRow> rows =
          parse_tuned_csv(fmt::format("{}\n{}\n", tuned_csv_header(), record->get("row")), path_, problems);
      if (rows.size() != 1) continue;
      JournalTask& task = tasks_[task_key(record->get("op"), record->get("problem"))];
      task.finished = true;
      task.result.row = rows[0];
      task.result.untuned_us = record->number("untuned_us");
      task.result.untuned_recipe = record->get("untuned_recipe");
    }
  }
  if (damaged > 0) log(LogLevel::kWarn, "tuner", "{}: {} damaged lines skipped", path_, damaged);
}

const JournalTask* Journal::find(std::string_view op, std::string_view problem) const {
  const auto it = tasks_.find(task_key(op, problem));
  return it == tasks_.end() ? nullptr : &it->second;
}

std::vector<Quarantined> Journal::quarantine() const {
  std::vector<Quarantined> bad;
  for (const auto& [key, task] : tasks_) {
    for (const CandidateResult& candidate : task.result.candidates) {
      if (quarantined(candidate.outcome))
        bad.push_back({key.substr(0, key.find('\t')), candidate.recipe, candidate.reason});
    }
  }
  return bad;
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

// One write, so that lines of several processes do not mix.
void Journal::append(Record record) {
  if (!file_) return;
  record.set("env", environment_);
  const std::string body = record.line();
  const std::string line = fmt::format("{}{} {}\n", torn_ ? "\n" : "", checksum(body), body);
  torn_ = false;
  ssize_t written;
  do {
    written = ::write(file_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) {
    problem_ = Status(StatusCode::kIoError, fmt::format("journal: cannot write {}: {}", path_, std::strerror(errno)));
    torn_ = written > 0;
    return;
  }
  ::fsync(file_.get());
}

}  // namespace tilewright
