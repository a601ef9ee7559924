// SPDX-License-Identifier: MIT
#include "tuning/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "core/log.hpp"
#include "core/profile/profile.hpp"
#include "dispatch/registry/quarantine.hpp"
#include "tuning/search.hpp"
#include "tuning/store/journal.hpp"
#include "tuning/store/table_store.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFromJournal = "journal";
constexpr int kMaxWorkers = 8;            // compilers at once
constexpr double kProgressSeconds = 0.1;  // between two reports of the same state

// The worker's context must be this one: same device, cache and mode, same number of units.
WorkerOptions worker_options(ContextImpl& context, const TuneOptions& options) {
  WorkerOptions worker;
  worker.argv = options.worker.empty() ? std::vector<std::string>{"/proc/self/exe", "tune-worker"} : options.worker;
  const DeviceId device = context.device().spec().id;
  if (device.kind != DeviceKind::kCpu) worker.argv.insert(worker.argv.end(), {"--device", to_string(device)});
  const std::string root = context.cache().root().empty() ? context.options().cache_dir : context.cache().root();
  if (!root.empty()) worker.environment.push_back("TILEWRIGHT_CACHE_DIR=" + root);
  worker.environment.push_back(context.cache().mode() == JitMode::kOff ? "TILEWRIGHT_JIT=off" : "TILEWRIGHT_JIT=on");
  worker.environment.push_back(fmt::format("TILEWRIGHT_NUM_THREADS={}", context.cpu().device->spec().units));
  return worker;
}

std::string journal_path(ContextImpl& context, const TuneOptions& options) {
  const ArchSpec* arch = context.device().spec().arch;
  return options.journal.empty() ? tuning_journal_path(arch != nullptr ? arch->target : "none") : options.journal;
}

// The tables' row for exactly this problem; null without one.
const TunedRow* find_row(const ContextImpl& context, const TunedTable& tables, const TuneTask& task, int units) {
  const DeviceSpec spec = context.spec(units);
  if (spec.arch == nullptr) return nullptr;
  return tables.find_exact(task.op->name(), spec.arch->target, spec.part, spec.units, task.op->signature(task.problem));
}

std::vector<TaskState> task_states(ContextImpl& context, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                                   const Journal& journal) {
  using Kind = TaskState::Kind;
  const DeviceSpec spec = context.spec(options.units);
  const std::shared_ptr<const TunedTable> tables = context.tables();
  std::vector<TaskState> states;
  for (const TuneTask& task : tasks) {
    TaskState state;
    const JournalTask* known = journal.find(task.op->name(), task.op->problem_text(task.problem));
    const TunedRow* row = find_row(context, *tables, task, options.units);
    if (options.retune) {
      state = {row != nullptr ? Kind::kStale : Kind::kNew, row != nullptr ? "measured again on request" : ""};
    } else if (known != nullptr && known->finished) {
      state = {Kind::kFresh, kFromJournal};
    } else if (row != nullptr) {
      const std::vector<std::string> reasons = stale_reasons(*row, spec);
      state = reasons.empty() ? TaskState{Kind::kFresh, tables->origin(*row)}
                              : TaskState{Kind::kStale, fmt::format("{}", fmt::join(reasons, "; "))};
    }
    states.push_back(std::move(state));
  }
  return states;
}

class TuneRun {
 public:
  TuneRun(ContextImpl& context, const std::vector<TuneTask>& tasks, const TuneOptions& options,
          const std::function<void(const TuneProgress&)>& progress)
      : context_(context), tasks_(tasks), options_(options), progress_(progress) {}

  Result<std::vector<TuneResult>> run();

 private:
  std::string table_path(const Operator& op) const;
  void resume(const Journal& journal);
  Status store_resumed();
  const TunedRow* table_row(const TuneTask& task) const { return find_row(context_, *tables_, task, options_.units); }
  void report(size_t candidate, size_t candidates, double best_us);
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  ContextImpl& context_;
  const std::vector<TuneTask>& tasks_;
  const TuneOptions& options_;
  const std::function<void(const TuneProgress&)>& progress_;
  const Clock::time_point start_ = Clock::now();
  const std::shared_ptr<const TunedTable> tables_ = context_.tables();
  std::vector<TuneResult> results_;
  size_t task_ = 0, searched_ = 0, to_search_ = 0;
  size_t reported_candidate_ = ~size_t{0};
  double reported_at_ = -1;
};

std::string TuneRun::table_path(const Operator& op) const {
  const DeviceSpec& spec = context_.device().spec();
  return !options_.table.empty() ? options_.table
                                 : user_tuned_path(spec.arch != nullptr ? spec.arch->target : "", op.name());
}

void TuneRun::resume(const Journal& journal) {
  const std::vector<TaskState> states = task_states(context_, tasks_, options_, journal);
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const TuneTask& task = tasks_[i];
    results_[i].task = task;
    results_[i].state = states[i];
    if (states[i].kind != TaskState::Kind::kFresh) {
      ++to_search_;
      continue;
    }
    const JournalTask* known = journal.find(task.op->name(), task.op->problem_text(task.problem));
    if (states[i].reason == kFromJournal) {
      results_[i] = known->result;
    } else {
      results_[i].row = *table_row(task);
      results_[i].untuned_us = results_[i].row.untuned_us;
    }
    results_[i].task = task;
    results_[i].state = states[i];
    results_[i].resumed = true;
  }
}

// The journal may know rows that the table has lost, or that another table wants.
Status TuneRun::store_resumed() {
  std::map<std::string, std::vector<TunedRow>> missing;
  std::map<std::string, std::string> texts;
  for (const TuneResult& result : results_) {
    // What a table gave stands there.
    if (!result.resumed || result.state.reason != kFromJournal) continue;
    const std::string path = table_path(*result.task.op);
    if (!texts.contains(path)) texts[path] = read_file(path) ? *read_file(path) : "";
    Result<std::string> line = print_tuned_row(result.row);
    if (!line) return line.status();
    if (texts[path].find(fmt::format("\n{}\n", *line)) == std::string::npos) missing[path].push_back(result.row);
  }
  for (const auto& [path, rows] : missing) {
    if (Status s = store_tuned_rows(path, rows); !s) return s;
  }
  return {};
}

void TuneRun::report(size_t candidate, size_t candidates, double best_us) {
  if (!progress_) return;
  const double now = elapsed();
  if (candidate == reported_candidate_ && now - reported_at_ < kProgressSeconds) return;
  reported_candidate_ = candidate;
  reported_at_ = now;
  const TuneTask& task = tasks_[task_];
  TuneProgress p;
  p.task = task_;
  p.tasks = tasks_.size();
  p.label = task.label;
  p.candidate = candidate;
  p.candidates = candidates;
  p.best_us = best_us;
  if (best_us > 0) p.best_gflops = task.op->operations(task.problem) / best_us * 1e-3;
  p.elapsed_seconds = now;
  p.left_seconds = std::max(0.0, options_.budget_seconds - now);
  if (searched_ > 0) {
    p.left_seconds =
        std::min(p.left_seconds, now / static_cast<double>(searched_) * static_cast<double>(to_search_ - searched_));
  }
  progress_(p);
}

Result<std::vector<TuneResult>> TuneRun::run() {
  const DeviceSpec spec = context_.spec(options_.units);
  for (const TuneTask& task : tasks_) {
    if (task.op == nullptr || context_.find_op(task.op->name()) != task.op) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("tuner: task '{}' names no operator of this context", task.label));
    }
    if (table_path(*task.op).empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "tuner: no place for tuned rows: no home directory; set TILEWRIGHT_DATA_DIR or TuneOptions::table");
    }
  }
  results_.resize(tasks_.size());

  Journal journal(journal_path(context_, options_), tuning_environment(context_, options_.units), options_.retune);
  if (!journal.problem().ok())
    log(LogLevel::kWarn, "tuner", "no journal, this run cannot be resumed: {}", journal.problem().message());
  QuarantineList quarantine(options_.quarantine.empty()
                                ? quarantine_path(spec.arch != nullptr ? spec.arch->target : "none")
                                : options_.quarantine,
                            context_);
  quarantine.apply();
  resume(journal);
  if (Status s = store_resumed(); !s) return s;

  SearchState state{context_,   options_, journal,
                    quarantine, {},       [this](size_t done, size_t all, double us) { report(done, all, us); }};
  const int workers = std::clamp(cpu_info().cores, 1, kMaxWorkers);
  for (int i = 0; i < workers; ++i)
    state.workers.push_back(std::make_unique<WorkerProcess>(worker_options(context_, options_)));
  if (to_search_ > 0) {
    if (Status s = state.workers[0]->ensure({}); !s) return s;
  }

  for (task_ = 0; task_ < tasks_.size(); ++task_) {
    TuneResult& result = results_[task_];
    if (result.resumed) continue;
    const TuneTask& task = tasks_[task_];
    const double share = (options_.budget_seconds - elapsed()) / static_cast<double>(to_search_ - searched_);
    const TaskState task_state = result.state;
    const ProfileRange range(task.op->name(), "tune", task.label);
    result = TaskSearch(state, task).run(share);
    result.state = task_state;
    ++searched_;
    if (!result.status.ok()) continue;
    set_provenance(result.row, spec);
    // Stored as soon as it is known: what an interrupted run measured is not lost.
    result.status = store_tuned_rows(table_path(*task.op), {result.row});
    if (result.status.ok()) journal.add_task(task.op->name(), task.op->problem_text(task.problem), result);
  }

  // From here on this process dispatches by the new rows.
  TunedTable table = load_tuned_tables(context_.options().user_tables, context_.options().tuned_files);
  std::vector<TunedRow> rows;
  for (const TuneResult& result : results_) {
    if (result.status.ok()) rows.push_back(result.row);
  }
  table.add_layer(std::move(rows));
  context_.set_tables(std::move(table));
  return std::move(results_);
}

}  // namespace

std::vector<TaskState> task_states(ContextImpl& context, const std::vector<TuneTask>& tasks,
                                   const TuneOptions& options) {
  const Journal journal(journal_path(context, options), tuning_environment(context, options.units), options.retune,
                        FileAccess::kRead);
  return task_states(context, tasks, options, journal);
}

Result<std::vector<TuneResult>> tune(ContextImpl& context, const std::vector<TuneTask>& tasks,
                                     const TuneOptions& options,
                                     const std::function<void(const TuneProgress&)>& progress) {
  return TuneRun(context, tasks, options, progress).run();
}

}  // namespace tilewright
