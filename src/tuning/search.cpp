// SPDX-License-Identifier: MIT
#include "tuning/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/fields.hpp"
#include "core/log.hpp"
#include "device/host_memory.hpp"

namespace tilewright {
namespace {

constexpr size_t kWave = 6;                // candidates compiled ahead of timing
constexpr double kSearchShare = 0.55;      // of a task's time; the rest confirms
constexpr double kShortSeconds = 0.06;     // of timing a candidate beside the untuned choice
constexpr double kShortGpuSeconds = 0.02;  // clocks of a device are finer than its host's

std::vector<double> parse_samples(std::string_view text) {
  std::vector<double> samples;
  const std::string copy(text);
  char* end = nullptr;
  for (const char* at = copy.c_str(); *at != '\0'; at = end) {
    const double value = std::strtod(at, &end);
    if (end == at) break;
    samples.push_back(value);
  }
  return samples;
}

Timing timing_of(std::vector<double> samples) {
  Timing timing;
  timing.sample_us = std::move(samples);
  summarise(timing);
  return timing;
}

}  // namespace

Record compile_problem(const Operator& op, ProblemRef problem, const TuneOptions& options) {
  return Record("problem")
      .set("op", op.name())
      .set("problem", op.problem_text(problem))
      .set("units", int64_t{options.units})
      .set("seeds", int64_t{std::max(1, options.seeds)})
      .set("rotations", int64_t{0});
}

TaskSearch::TaskSearch(SearchState& state, const TuneTask& task)
    : state_(state),
      task_(task),
      op_(*task.op),
      problem_text_(task.op->problem_text(task.problem)),
      spec_(state.context.spec(state.options.units)) {}

TuneResult TaskSearch::run(double seconds) {
  TuneResult result;
  result.task = task_;
  result.status = collect();
  if (result.status.ok()) result.status = find_untuned();
  if (result.status.ok()) {
    // Setting up and the untuned choice come out of the search's share, never out of the confirmation's.
    const double used = elapsed();
    search(used + std::max(0.0, seconds - used) * kSearchShare);
    const double left = std::max(0.0, seconds - elapsed());
    confirm(finalists(left * 0.4), left * 0.5, result);
  }
  for (Candidate& candidate : candidates_) {
    if (!candidate.done) finish(candidate, CandidateOutcome::kSkipped, "the budget was spent");
    result.candidates.push_back(candidate.result);
  }
  // What was found bad on this problem before is disabled, and was not tried again.
  const std::lock_guard lock(state_.store.mutex);
  for (const QuarantineEntry& entry : state_.store.quarantine.entries()) {
    const bool own = entry.op == op_.name() && entry.problem == problem_text_;
    const bool listed = std::any_of(result.candidates.begin(), result.candidates.end(),
                                    [&entry](const CandidateResult& c) { return c.recipe == entry.recipe; });
    if (!own || listed) continue;
    CandidateResult earlier;
    earlier.recipe = entry.recipe, earlier.reason = entry.reason;
    if (fields_detail::parse_value(entry.outcome, earlier.outcome).ok())
      result.candidates.push_back(std::move(earlier));
  }
  return result;
}

bool TaskSearch::may_compile() const {
  return state_.context.cache().mode() != JitMode::kOff && compiler_of(state_.context.device().spec()).available().ok();
}

Status TaskSearch::collect() {
  Dispatcher& dispatcher = state_.context.dispatcher();
  Result<std::vector<Choice>> choices = dispatcher.choices(op_, task_.problem, spec_, TunedTable(), "", &refusals_);
  if (!choices) return choices.status();
  for (Choice& choice : *choices) {
    Candidate candidate;
    candidate.result.recipe = print_recipe(op_.families(), choice.recipe);
    candidate.result.predicted_us = choice.cost * 1e6;
    candidate.generic = choice.source == ChoiceSource::kGeneric;
    candidate.compiled = dispatcher.built(op_, choice.recipe);
    candidate.recipe = std::move(choice.recipe);
    candidates_.push_back(std::move(candidate));
  }

  const int rotations = rotations_for(op_, task_.problem, spec_).copies;
  for (size_t i = 0; i < state_.workers.size(); ++i) {
    Record told = compile_problem(op_, task_.problem, state_.options);
    if (i == 0) told.set("rotations", int64_t{rotations});
    state_.workers[i]->set_problem(std::move(told));
  }
  return state_.workers[0]->ensure([this] { tick(); });
}

// What dispatch would run without tuned rows: the first choice whose code can be had and that is right.
Status TaskSearch::find_untuned() {
  bool compile_allowed = may_compile();
  std::string reasons;
  for (Candidate& candidate : candidates_) {
    if (!candidate.done && !candidate.compiled && !compile_allowed) {
      finish(candidate, CandidateOutcome::kSkipped, "not built, and compiling is off");
    }
    if (!candidate.done) {
      untuned_ = &candidate;
      evaluate(candidate);
      if (!worker_problem_.ok()) return worker_problem_;
      // The baseline is held to what a stored row is held to.
      if (candidate.result.outcome == CandidateOutcome::kTimed && verify(candidate, "full")) return {};
      if (candidate.result.outcome == CandidateOutcome::kCompileFailed) compile_allowed = false;
    }
    untuned_ = nullptr;
    if (reasons.size() < 600) reasons += fmt::format("; {}: {}", candidate.result.recipe, candidate.result.reason);
  }
  return Status(StatusCode::kVerifyFailed,
                fmt::format("{}: no candidate runs right on {}{}", op_.name(), problem_text_, reasons));
}

// The cost model's predictions, scaled by what was measured: of the candidate's own kernels where some were, else of the
// kernel that it flattered least.
void TaskSearch::predict() {
  std::map<std::string_view, double> scales;
  double hopeful = 0;
  for (const Candidate& c : candidates_) {
    if (c.result.us <= 0 || c.result.predicted_us <= 0) continue;
    const double scale = c.result.us / c.result.predicted_us;
    const auto [known, added] = scales.emplace(c.recipe.steps[0].key.text, scale);
    if (!added) known->second = std::min(known->second, scale);
    hopeful = hopeful == 0 ? scale : std::min(hopeful, scale);
  }
  for (Candidate& c : candidates_) {
    const auto known = scales.find(c.recipe.steps[0].key.text);
    c.expected_us = c.result.predicted_us * (known == scales.end() ? hopeful : known->second);
  }
}

std::vector<TaskSearch::Candidate*> TaskSearch::best_of_families(const std::vector<Candidate*>& open) const {
  std::vector<Candidate*> best;
  std::set<std::string_view> families = {untuned_->recipe.steps.front().key.family};
  for (Candidate* candidate : open) {
    const bool hopeless = candidate->result.predicted_us > kHopelessFamily * untuned_->result.predicted_us;
    if (families.insert(candidate->recipe.steps.front().key.family).second && !hopeless) best.push_back(candidate);
  }
  return best;
}

void TaskSearch::search(double until) {
  std::vector<Candidate*> open;
  for (Candidate& candidate : candidates_) {
    if (candidate.done) continue;
    if (candidate.generic) {
      finish(candidate, CandidateOutcome::kSkipped, "the generic kernel only serves where nothing else does");
    } else if (!candidate.compiled && !may_compile()) {
      finish(candidate, CandidateOutcome::kSkipped, "not built, and compiling is off");
    } else {
      open.push_back(&candidate);
    }
  }
  // First the best of each family: a cost model that flatters one of them must not hide the others.
  std::vector<Candidate*> wave = best_of_families(open);
  while (elapsed() < until && worker_problem_.ok() && !open.empty()) {
    if (wave.empty()) {
      // The most promising ones next; equal promises stay in the cost model's order.
      predict();
      std::stable_sort(open.begin(), open.end(),
                       [](const Candidate* x, const Candidate* y) { return x->expected_us < y->expected_us; });
      wave.assign(open.begin(), open.begin() + static_cast<ptrdiff_t>(std::min(kWave, open.size())));
      if (wave.front()->expected_us > kHopeless * best_us_) break;
    }
    compile(wave);
    for (Candidate* candidate : wave) {
      if (!candidate->done && elapsed() < until && worker_problem_.ok()) evaluate(*candidate);
    }
    std::erase_if(open, [](const Candidate* c) { return c->done; });
    wave.clear();
  }
  for (Candidate* candidate : open) {
    if (candidate->expected_us <= kHopeless * best_us_) continue;
    finish(*candidate, CandidateOutcome::kSkipped,
           fmt::format("predicted {:.3g} times slower than the best", candidate->expected_us / best_us_));
  }
}

void TaskSearch::compile(std::vector<Candidate*> wave) {
  std::erase_if(wave, [](const Candidate* c) { return c->compiled || c->done; });
  // Without a shared folder every worker would compile for itself alone.
  const bool shared = !state_.context.cache().root().empty();
  const size_t count = shared ? state_.workers.size() : 1;
  std::vector<WorkerProcess*> workers;
  for (size_t i = 0; i < count; ++i) workers.push_back(state_.workers[i].get());
  std::vector<Candidate*> given(count, nullptr);
  const auto tick = [this] { this->tick(); };

  size_t next = 0;
  while (true) {
    for (size_t i = 0; i < count; ++i) {
      if (workers[i]->busy() || next == wave.size()) continue;
      given[i] = wave[next++];
      workers[i]->begin(Record("compile").set("recipe", given[i]->result.recipe), limits_of(*given[i]), tick);
    }
    if (std::none_of(workers.begin(), workers.end(), [](const WorkerProcess* w) { return w->busy(); })) return;
    WorkerProcess::wait(workers, tick);
    for (size_t i = 0; i < count; ++i) {
      Record answer;
      if (workers[i]->ready()) given[i]->compiled = accept(*given[i], workers[i]->take(), /*compiling=*/true, answer);
    }
  }
}

WorkerLimits TaskSearch::limits_of(const Candidate& candidate) const {
  WorkerLimits limits;
  limits.seconds = std::max(0.05, state_.options.candidate_seconds - candidate.seconds);
  limits.bytes = state_.options.candidate_bytes;
  // A machine with less memory than the limit is protected too.
  if (const int64_t available = available_host_memory(); available > 0)
    limits.bytes = std::min(limits.bytes, available / 10 * 8);
  return limits;
}

bool TaskSearch::accept(Candidate& candidate, const WorkerReply& reply, bool compiling, Record& answer) {
  using End = WorkerReply::End;
  {
    const std::lock_guard lock(state_.store.mutex);
    (compiling ? state_.store.costs.compile_seconds : state_.store.costs.measure_seconds) += reply.seconds;
    state_.store.costs.compiled += compiling ? 1 : 0;
  }
  // Confirming costs the budget, not the candidate's limit.
  if (!candidate.done) candidate.seconds += reply.seconds;
  switch (reply.end) {
    case End::kAnswered: answer = reply.record; return true;
    case End::kNoWorker:
      worker_problem_ = Status(StatusCode::kIoError, reply.reason);
      finish(candidate, CandidateOutcome::kSkipped, reply.reason);
      return false;
    case End::kRefused: {
      const bool compiler =
          compiling || reply.code == StatusCode::kCompileFailed || reply.code == StatusCode::kCompileDisabled;
      finish(candidate, compiler ? CandidateOutcome::kCompileFailed : CandidateOutcome::kSkipped, reply.reason);
      return false;
    }
    case End::kCrashed: finish(candidate, CandidateOutcome::kCrashed, reply.reason); return false;
    case End::kTimedOut:
      // A slow compiler says nothing about the kernel.
      finish(candidate, compiling ? CandidateOutcome::kCompileFailed : CandidateOutcome::kTimedOut, reply.reason);
      return false;
    case End::kOutOfMemory: finish(candidate, CandidateOutcome::kOutOfMemory, reply.reason); return false;
  }
  return false;
}

void TaskSearch::evaluate(Candidate& candidate) {
  if (!candidate.compiled) compile({&candidate});
  if (candidate.done || !verify(candidate, "quick")) return;
  std::vector<Candidate*> group = {&candidate};
  if (untuned_ != &candidate) group.insert(group.begin(), untuned_);
  const double seconds = state_.context.device().host_memory() ? kShortSeconds : kShortGpuSeconds;
  const Result<std::vector<Timing>> timings = time(group, seconds, 3, 41);
  {
    const std::lock_guard lock(state_.store.mutex);
    ++state_.store.costs.measured;
  }
  if (!timings) return;
  candidate.result.us = timings->back().us;
  candidate.result.spread = timings->back().spread;
  // Beside the untuned choice: what slowed both does not count.
  candidate.ratio = group.size() == 1 ? 1 : paired_ratio(timings->front(), timings->back()).ratio;
  best_us_ = best_us_ == 0 ? candidate.result.us : std::min(best_us_, candidate.result.us);
  finish(candidate, CandidateOutcome::kTimed, "");
}

bool TaskSearch::verify(Candidate& candidate, const char* extent) {
  WorkerProcess& worker = *state_.workers[0];
  Record answer;
  const Record request = Record("verify").set("recipe", candidate.result.recipe).set("extent", extent);
  const WorkerReply reply = worker.call(request, limits_of(candidate), [this] { tick(); });
  if (!accept(candidate, reply, /*compiling=*/false, answer)) return false;
  candidate.result.rel_error = std::max(candidate.result.rel_error, answer.number("rel_error"));
  candidate.result.worst_ratio = std::max(candidate.result.worst_ratio, answer.number("worst_ratio"));
  if (answer.integer("passed") != 0) return true;
  finish(candidate, CandidateOutcome::kRejected, std::string(answer.get("failure")));
  worker.stop();  // what a wrong kernel did to the process must not be blamed on the next one
  return false;
}

Result<std::vector<Timing>> TaskSearch::time(const std::vector<Candidate*>& group, double seconds, int min_samples,
                                             int max_samples, TimeMode mode) {
  std::string recipes;
  for (const Candidate* c : group) recipes += (recipes.empty() ? "" : " ") + c->result.recipe;
  const Record request = Record("time")
                             .set("recipes", recipes)
                             .set("seconds", seconds)
                             .set("min_samples", int64_t{min_samples})
                             .set("max_samples", int64_t{max_samples})
                             .set("mode", static_cast<int64_t>(mode));
  // Beside the untuned choice, which has been timed before, a failure is the other member's; in a larger group it is
  // nobody's.
  Candidate& last = *group.back();
  WorkerLimits limits = limits_of(last);
  // Rests are long beside few samples.
  limits.seconds += (seconds + (mode == TimeMode::kRested ? 2 : 0)) * static_cast<double>(group.size());
  const WorkerReply reply = state_.workers[0]->call(request, limits, [this] { tick(); });
  Record answer = reply.record;
  if (group.size() > 2 ? reply.end != WorkerReply::End::kAnswered : !accept(last, reply, /*compiling=*/false, answer)) {
    return Status(StatusCode::kInternal, reply.reason);
  }
  power_ = answer.get("power");
  std::vector<Timing> timings;
  for (size_t i = 0; i < group.size(); ++i) {
    timings.push_back(timing_of(parse_samples(answer.get(fmt::format("samples{}", i)))));
    if (timings.back().us > 0) continue;
    finish(last, CandidateOutcome::kSkipped, "a time of 0 is no time");
    return Status(StatusCode::kInternal, last.result.reason);
  }
  return timings;
}

void TaskSearch::finish(Candidate& candidate, CandidateOutcome outcome, std::string reason) {
  candidate.done = true;
  candidate.result.outcome = outcome;
  candidate.result.reason = std::move(reason);
  std::unique_lock lock(state_.store.mutex);
  if (outcome != CandidateOutcome::kSkipped)
    state_.store.journal.add_candidate(op_.name(), problem_text_, candidate.result);
  if (shows_a_bad_kernel(outcome)) {
    state_.store.quarantine.add({std::string(op_.name()), candidate.result.recipe, problem_text_,
                                 kOutcomeNames[static_cast<int>(outcome)], candidate.result.reason, "", ""});
  }
  if (outcome != CandidateOutcome::kTimed && outcome != CandidateOutcome::kSkipped) {
    log(LogLevel::kWarn, "tuner", "{} {}: {}", candidate.result.recipe, kOutcomeNames[static_cast<int>(outcome)],
        candidate.result.reason);
  }
  lock.unlock();
  tick();
}

void TaskSearch::tick() {
  if (!state_.progress) return;
  const auto done = std::count_if(candidates_.begin(), candidates_.end(), [](const Candidate& c) { return c.done; });
  state_.progress(static_cast<size_t>(done), candidates_.size(), best_us_);
}

}  // namespace tilewright
