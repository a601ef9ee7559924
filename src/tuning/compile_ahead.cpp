// SPDX-License-Identifier: MIT
#include "tuning/compile_ahead.hpp"

#include <algorithm>
#include <set>

#include "tuning/search.hpp"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCandidateSeconds = 0.15;  // to verify and time one
constexpr int kFewest = 3, kMost = 24;      // candidates of a task

struct Wanted {
  size_t rank = 0;  // in its task
  const TuneTask* task = nullptr;
  std::string recipe;
};

// In the order in which they are compiled.
std::vector<Wanted> wanted_kernels(SearchState& state, std::span<const TuneTask* const> tasks, double task_seconds) {
  Dispatcher& dispatcher = state.context.dispatcher();
  const auto most = static_cast<size_t>(std::clamp(static_cast<int>(task_seconds / kCandidateSeconds), kFewest, kMost));
  const DeviceSpec spec = state.context.spec(state.options.units);
  std::vector<Wanted> wanted;
  std::set<std::string> seen;
  for (const TuneTask* task : tasks) {
    const Result<std::vector<Choice>> choices =
        dispatcher.choices(*task->op, task->problem, spec, TunedTable(), "", nullptr);
    if (!choices) continue;
    size_t rank = 0;
    std::set<std::string_view> families;
    for (const Choice& choice : *choices) {
      if (choice.source != ChoiceSource::kCost) continue;
      // The best of each family is tried whatever the others promise.
      const bool first = families.insert(choice.recipe.steps.front().key.family).second;
      const double hopeless = first ? kHopelessFamily : kHopeless;
      if (choice.cost > hopeless * choices->front().cost || (rank >= most && !first)) continue;
      rank += first ? 0 : 1;
      if (!seen.insert(choice.recipe.steps.front().key.text).second) continue;
      if (!dispatcher.built(*task->op, choice.recipe))
        wanted.push_back({rank, task, print_recipe(task->op->families(), choice.recipe)});
    }
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& x, const Wanted& y) { return x.rank < y.rank; });
  return wanted;
}

}  // namespace

void compile_ahead(SearchState& state, std::span<const TuneTask* const> tasks, const CompileAheadOptions& options) {
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  // Without a shared folder what a child compiles is lost.
  if (state.context.cache().root().empty() || state.context.cache().mode() == JitMode::kOff) return;
  if (!compiler_of(state.context.device().spec()).available().ok()) return;
  std::vector<WorkerProcess*> workers;
  for (size_t i = 1; i < state.workers.size(); ++i) workers.push_back(state.workers[i].get());
  if (workers.empty()) return;
  const std::vector<Wanted> wanted = wanted_kernels(state, tasks, options.task_seconds);
  size_t next = 0, done = 0;
  const auto tick = [&] {
    if (options.progress) options.progress(done, wanted.size());
  };
  WorkerLimits limits;
  limits.seconds = state.options.candidate_seconds;
  limits.bytes = state.options.candidate_bytes;
  while (true) {
    for (WorkerProcess* worker : workers) {
      if (worker->busy() || next == wanted.size() || elapsed() > options.seconds) continue;
      const Wanted& one = wanted[next++];
      worker->set_problem(compile_problem(*one.task->op, one.task->problem, state.options));
      worker->begin(Record("compile").set("recipe", one.recipe), limits, tick);
    }
    if (std::none_of(workers.begin(), workers.end(), [](const WorkerProcess* w) { return w->busy(); })) break;
    WorkerProcess::wait(workers, tick);
    for (WorkerProcess* worker : workers) {
      if (!worker->ready()) continue;
      const WorkerReply reply = worker->take();
      ++done;
      ++state.store.costs.compiled;
      state.store.costs.compile_seconds += reply.seconds;
    }
  }
  state.store.costs.ahead_seconds = elapsed();
}

}  // namespace tilewright
