// SPDX-License-Identifier: MIT
#include "tuning/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "core/log.hpp"
#include "core/profile/profile.hpp"
#include "device/host_memory.hpp"
#include "dispatch/registry/quarantine.hpp"
#include "tuning/compile_ahead.hpp"
#include "tuning/search.hpp"
#include "tuning/store/journal.hpp"
#include "tuning/store/table_store.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFromJournal = "journal";
constexpr int kMaxWorkers = 8;      // compilers at once
constexpr int kMaxGpuWorkers = 32;  // the same where the host does nothing else
constexpr int64_t kCompilerBytes = int64_t{512} << 20;
constexpr double kAheadShare = 0.3;       // of the budget, for compiling before anything is measured
constexpr double kProgressSeconds = 0.1;  // between two reports of the same state

// The worker's context must be this one: same device, cache and mode, same number of units. One that only compiles is on
// the CPU.
WorkerOptions worker_options(ContextImpl& context, const TuneOptions& options, DeviceId device) {
  WorkerOptions worker;
  worker.argv = options.worker.empty() ? std::vector<std::string>{"/proc/self/exe", "tune-worker"} : options.worker;
  if (device.kind != DeviceKind::kCpu) worker.argv.insert(worker.argv.end(), {"--device", to_string(device)});
  const std::string root = context.cache().root().empty() ? context.options().cache_dir : context.cache().root();
  if (!root.empty()) worker.environment.push_back("TILEWRIGHT_CACHE_DIR=" + root);
  worker.environment.push_back(context.cache().mode() == JitMode::kOff ? "TILEWRIGHT_JIT=off" : "TILEWRIGHT_JIT=on");
  worker.environment.push_back(fmt::format("TILEWRIGHT_NUM_THREADS={}", context.cpu().device->spec().units));
  return worker;
}

// One a core, while they find room.
int gpu_compilers() {
  const int64_t memory = available_host_memory();
  const int64_t room = memory > 0 ? memory / kCompilerBytes : kMaxGpuWorkers;
  return static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(room, cpu_info().cores), 1, kMaxGpuWorkers));
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
  // One device: its measuring worker, and those that compile for it.
  std::unique_ptr<SearchState> lane_of(TuneStore& store, DeviceId device, int compilers, size_t& task);
  Status search_all(TuneStore& store);
  // Tasks one after another, until none is left.
  void search_tasks(SearchState& lane, size_t& task);
  void search_task(SearchState& lane, size_t task);
  size_t take_task();
  // `label`: "" = the task's.
  void report(size_t task, size_t candidate, size_t candidates, double best_us, const std::string& label = "");
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  ContextImpl& context_;
  const std::vector<TuneTask>& tasks_;
  const TuneOptions& options_;
  const std::function<void(const TuneProgress&)>& progress_;
  const Clock::time_point start_ = Clock::now();
  const std::shared_ptr<const TunedTable> tables_ = context_.tables();
  std::vector<TuneResult> results_;
  std::mutex mutex_;  // of what follows, and of the results' order
  size_t next_ = 0, begun_ = 0, searched_ = 0, to_search_ = 0, lanes_ = 1;
  size_t reported_task_ = 0, reported_candidate_ = ~size_t{0};
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

void TuneRun::report(size_t index, size_t candidate, size_t candidates, double best_us, const std::string& label) {
  if (!progress_) return;
  const std::lock_guard lock(mutex_);
  const double now = elapsed();
  const bool same = index == reported_task_ && candidate == reported_candidate_;
  if ((same || lanes_ > 1) && now - reported_at_ < kProgressSeconds) return;
  reported_task_ = index, reported_candidate_ = candidate;
  reported_at_ = now;
  const TuneTask& task = tasks_[index];
  TuneProgress p;
  p.task = index;
  p.tasks = tasks_.size();
  p.label = label.empty() ? task.label : label;
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

std::unique_ptr<SearchState> TuneRun::lane_of(TuneStore& store, DeviceId device, int compilers, size_t& task) {
  auto lane = std::make_unique<SearchState>(
      SearchState{context_, options_, store, {}, [this, &task](size_t done, size_t all, double us) {
                    report(task, done, all, us);
                  }});
  // Where the measuring worker has a GPU, the others are without one.
  const bool gpu = device.kind != DeviceKind::kCpu;
  for (int i = 0; i < 1 + compilers; ++i) {
    lane->workers.push_back(
        std::make_unique<WorkerProcess>(worker_options(context_, options_, gpu && i > 0 ? DeviceId() : device)));
  }
  return lane;
}

size_t TuneRun::take_task() {
  const std::lock_guard lock(mutex_);
  while (next_ < tasks_.size() && results_[next_].resumed) ++next_;
  begun_ += next_ < tasks_.size() ? 1 : 0;
  return next_ < tasks_.size() ? next_++ : next_;
}

void TuneRun::search_task(SearchState& lane, size_t index) {
  TuneResult& result = results_[index];
  const TuneTask& task = tasks_[index];
  // What is left of the budget, over what is left of the tasks; the devices work side by side.
  double left = 1;
  {
    const std::lock_guard lock(mutex_);
    left = std::max(1.0, static_cast<double>(to_search_ - begun_ + 1) / static_cast<double>(lanes_));
  }
  const TaskState task_state = result.state;
  const ProfileRange range(task.op->name(), "tune", task.label);
  result = TaskSearch(lane, task).run((options_.budget_seconds - elapsed()) / left);
  result.state = task_state;
  const std::scoped_lock lock(mutex_, lane.store.mutex);
  ++searched_;
  if (!result.status.ok()) return;
  set_provenance(result.row, context_.spec(options_.units));
  // Stored as soon as it is known: what an interrupted run measured is not lost.
  result.status = store_tuned_rows(table_path(*task.op), {result.row});
  if (result.status.ok()) lane.store.journal.add_task(task.op->name(), task.op->problem_text(task.problem), result);
}

void TuneRun::search_tasks(SearchState& lane, size_t& task) {
  while ((task = take_task()) < tasks_.size()) search_task(lane, task);
}

Status TuneRun::search_all(TuneStore& store) {
  std::vector<DeviceId> devices = options_.devices;
  if (devices.empty()) devices = {context_.device().spec().id};
  lanes_ = devices.size();
  const bool gpu = devices.front().kind != DeviceKind::kCpu;
  const int compilers = gpu ? gpu_compilers() : std::clamp(cpu_info().cores, 1, kMaxWorkers) - 1;
  // Each lane's task, for its reports.
  std::vector<size_t> tasks(lanes_, 0);
  std::vector<std::unique_ptr<SearchState>> lanes;
  for (size_t i = 0; i < lanes_; ++i) lanes.push_back(lane_of(store, devices[i], i == 0 ? compilers : 0, tasks[i]));
  if (Status s = lanes.front()->workers.front()->ensure({}); !s) return s;
  if (gpu) {
    std::vector<const TuneTask*> open;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (!results_[i].resumed) open.push_back(&tasks_[i]);
    }
    CompileAheadOptions ahead;
    ahead.seconds = options_.budget_seconds * kAheadShare;
    ahead.task_seconds = options_.budget_seconds * static_cast<double>(lanes_) / static_cast<double>(open.size());
    ahead.progress = [this](size_t done, size_t all) {
      report(0, done, all, 0, fmt::format("{} of {} kernels compiled ahead", done, all));
    };
    compile_ahead(*lanes.front(), open, ahead);
  }
  std::vector<std::thread> others;
  for (size_t i = 1; i < lanes.size(); ++i) {
    if (Status s = lanes[i]->workers.front()->ensure({}); !s) {
      log(LogLevel::kWarn, "tuner", "{} is left out: {}", to_string(devices[i]), s.message());
      const std::lock_guard lock(mutex_);
      --lanes_;
      continue;
    }
    others.emplace_back([this, &lanes, &tasks, i] { search_tasks(*lanes[i], tasks[i]); });
  }
  search_tasks(*lanes.front(), tasks.front());
  for (std::thread& other : others) other.join();
  return {};
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

  TuneStore store{journal, quarantine, {}, {}};
  if (to_search_ > 0) {
    if (Status s = search_all(store); !s) return s;
  }
  if (options_.costs != nullptr) *options_.costs = store.costs;

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
