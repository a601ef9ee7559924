// SPDX-License-Identifier: MIT
#include "commands/tuning/gpu_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "command.hpp"

namespace tilewright::cli {
namespace {

constexpr double kBurstUs = 1500;
constexpr double kSustainedSeconds = 0.4;  // for each side

constexpr int kMaxCompilers = 16;

constexpr const char* kTablesChoice = "tables' choice";
constexpr const char* kUntuned = "untuned choice";
constexpr const char* kBaseline = "plain GEMM";

}  // namespace

// One kernel that takes its turn. The first side of a row is ours.
struct GpuBench::Side {
  std::string name;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<ProblemInstance> instance;
  bool rival = true;
};

bool GpuBench::own(const Operator& op, const Recipe& recipe) const {
  return std::none_of(recipe.steps.begin(), recipe.steps.end(), [&op](const RecipeStep& step) {
    const KernelFamily* family = find_family(op.families(), step.key.family);
    return family != nullptr && family->backend() == Backend::kVendor;
  });
}

Result<std::shared_ptr<const Plan>> GpuBench::bind(const NamedProblem& problem, const Recipe& recipe) {
  return context_.dispatcher().bind(*problem.op, problem.ref(), spec_, recipe, ChoiceSource::kForced,
                                    /*allow_compile=*/true);
}

Result<std::shared_ptr<const Plan>> GpuBench::vendor_plan(const NamedProblem& problem) {
  for (const KernelFamily* family : problem.op->families()) {
    if (family->backend() != Backend::kVendor || !family->supports(problem.ref(), spec_).ok()) continue;
    const std::vector<Candidate> found = family->candidates(problem.ref(), spec_);
    if (!found.empty()) return bind(problem, Recipe{{found.front().step}});
  }
  return std::shared_ptr<const Plan>();
}

Result<std::shared_ptr<const Plan>> GpuBench::own_plan(const NamedProblem& problem, std::span<const Choice> choices) {
  Status failed(StatusCode::kUnsupported, "no family of our own serves it");
  bool tried = false;
  for (const Choice& choice : choices) {
    if (!own(*problem.op, choice.recipe) && choice.source != ChoiceSource::kForced) continue;
    Result<std::shared_ptr<const Plan>> plan = bind(problem, choice.recipe);
    if (plan) return plan;
    if (!tried) failed = plan.status();
    tried = true;
  }
  return failed;
}

Result<std::vector<GpuBench::Side>> GpuBench::sides_of(const SuiteProblem& item) {
  const NamedProblem& problem = item.problem;
  const Operator& op = *problem.op;
  Result<std::vector<Choice>> choices =
      context_.dispatcher().choices(op, problem.ref(), spec_, *context_.tables(), options_.recipe, nullptr);
  if (!choices) return choices.status();
  std::vector<Side> sides;
  Result<std::shared_ptr<const Plan>> ours = own_plan(problem, *choices);
  if (!ours) return ours.status();
  sides.push_back({"", *ours, nullptr, false});

  const auto add = [&](const char* name, const Recipe& recipe) {
    if (print_recipe(op.families(), recipe) == print_recipe(op.families(), sides.front().plan->recipe)) return;
    Result<std::shared_ptr<const Plan>> plan = bind(problem, recipe);
    if (plan) sides.push_back({name, *plan, nullptr, false});
  };
  if (options_.recipe.empty()) add(kTablesChoice, choices->front().recipe);
  if (options_.untuned) {
    Result<std::vector<Choice>> untuned =
        context_.dispatcher().choices(op, problem.ref(), spec_, TunedTable(), "", nullptr);
    if (!untuned) return untuned.status();
    add(kUntuned, untuned->front().recipe);
  }
  if (options_.vendor && !item.baseline) {
    Result<std::shared_ptr<const Plan>> plan = vendor_plan(problem);
    if (!plan) {
      note(fmt::format("{}: no comparison with the vendor's library: {}", problem.text(), plan.status().message()));
    } else if (*plan != nullptr) {
      sides.push_back({(*plan)->recipe.steps.front().key.family, *plan, nullptr, true});
    }
  }
  return sides;
}

// Those that can run the problem: each has run it once, which made its tensors and its graph.
std::vector<GpuBench::Rival> GpuBench::rivals_of(const NamedProblem& problem, int rotations) {
  PeerRequest request;
  std::vector<Rival> rivals;
  if (peers_.empty() || !peer_request(*problem.op, problem.ref(), request)) return rivals;
  request.rotations = rotations;
  for (Peer* peer : peers_.serving(request)) {
    const TimedSample sample = [peer, request] { return peer->burst(request); };
    if (const Result<double> first = sample()) {
      rivals.push_back({peer->name(), sample});
    } else {
      bar_.finish();
      note(fmt::format("{}: {}", problem.text(), first.status().message()));
    }
  }
  return rivals;
}

Status GpuBench::measure(const SuiteProblem& item) {
  const NamedProblem& problem = item.problem;
  Result<std::vector<Side>> sides = sides_of(item);
  if (!sides) return sides.status();
  const int rotations =
      rotations_for(*problem.op, problem.ref(), spec_, item.baseline || !peers_.empty() ? 2 : 1).copies;
  const auto instantiate = [&](const NamedProblem& of) -> Result<std::shared_ptr<ProblemInstance>> {
    Result<std::unique_ptr<ProblemInstance>> instance = of.op->instantiate(
        of.ref(), context_.device(), {.rotations = rotations, .device_data = context_.device_data(), .usual = true});
    if (!instance) return instance.status();
    (*instance)->fill(1, InputData::kNormal);
    return std::shared_ptr<ProblemInstance>(std::move(*instance));
  };
  const Result<std::shared_ptr<ProblemInstance>> instance = instantiate(problem);
  if (!instance) return instance.status();
  for (Side& side : *sides) side.instance = *instance;
  if (item.baseline) {
    Result<std::vector<Choice>> choices =
        context_.dispatcher().choices(*item.baseline->op, item.baseline->ref(), spec_, *context_.tables(), "", nullptr);
    if (!choices) return choices.status();
    Result<std::shared_ptr<const Plan>> plan = own_plan(*item.baseline, *choices);
    if (!plan) return plan.status();
    const Result<std::shared_ptr<ProblemInstance>> plain = instantiate(*item.baseline);
    if (!plain) return plain.status();
    sides->push_back({kBaseline, *plan, *plain, true});
  }

  // A time without a right result is worth nothing.
  const Side& ours = sides->front();
  ours.instance->poison();
  if (Status s = run_plan(context_.device(), *ours.plan, ours.instance->bindings(0), {}); !s) return s;
  const VerifyReport report = ours.instance->verify();
  if (!report.passed) {
    return Status(StatusCode::kVerifyFailed,
                  fmt::format("{}: {}", print_recipe(problem.op->families(), ours.plan->recipe), report.failure));
  }

  const double operations = problem.op->operations(problem.ref()), bytes = problem.op->bytes_moved(problem.ref());
  const Roof roof = roof_of(spec_, probe_.limits(), *problem.op, problem.ref());
  std::vector<TurnedCall> calls;
  for (const Side& side : *sides) {
    calls.push_back([this, &side, rotations](int turn, const LaunchContext& stream) {
      return run_plan_in_row(context_.device(), *side.plan, side.instance->bindings(turn % rotations), stream);
    });
  }
  const std::vector<Rival> rivals = rivals_of(problem, rotations);
  std::vector<TimedSample> others;
  for (const Rival& rival : rivals) others.push_back(rival.sample);
  const double seconds = options_.seconds / static_cast<double>(sides->size() + rivals.size());
  const bool hot = heats(operations, roof.limit_us(operations, bytes));
  MeasureOptions bursts{.seconds = seconds, .min_samples = 7, .max_samples = 101, .graph_us = kBurstUs};
  if (hot) bursts = rested_bursts(seconds);

  // Bars for shares were set on bursts.
  struct Way {
    const char* name;
    MeasureOptions options;
    Roof roof;
    SuiteBar bar;
  };
  std::vector<Way> ways = {{"", bursts, roof, item.bar}};
  if (item.sustained) {
    ways.push_back({", sustained", sustained_calls(kSustainedSeconds), roof.sustained(), {.ratio = item.bar.ratio}});
  }
  for (const Way& way : ways) {
    const Result<std::vector<Timing>> timings =
        measure_graphs(context_.device(), calls, rotations, way.options, others);
    if (!timings) return timings.status();
    BenchRow row;
    row.item = item;
    row.item.regime += way.name;
    row.item.bar = way.bar;
    row.edges = sides->front().plan->programmatic_edge ? "pdl" : "plain";
    row.rel_error = report.rel_error;
    add_row(std::move(row), way.roof, *sides, rivals, *timings);
  }
  return {};
}

void GpuBench::add_row(BenchRow row, const Roof& roof, std::span<const Side> sides, std::span<const Rival> rivals,
                       std::span<const Timing> timings) {
  const NamedProblem& problem = row.item.problem;
  row.device = to_string(spec_.id);
  row.threads = spec_.units;
  row.recipe = print_recipe(problem.op->families(), sides.front().plan->recipe);
  row.us = timings.front().us, row.spread = timings.front().spread;
  const double fraction =
      roof.fraction(problem.op->operations(problem.ref()), problem.op->bytes_moved(problem.ref()), row.us);
  row.limit = {fraction, fraction, fraction};
  for (size_t i = 1; i < sides.size(); ++i) {
    row.peers.push_back({sides[i].name, timings[i].us, paired_ratio(timings[i], timings.front()), sides[i].rival});
  }
  for (size_t i = 0; i < rivals.size(); ++i) {
    const Timing& timing = timings[sides.size() + i];
    row.peers.push_back({rivals[i].name, timing.us, paired_ratio(timing, timings.front())});
  }
  rows_.push_back(std::move(row));
}

namespace {

// One row of each regime, then the next of each: a time that is too short leaves something of all of them.
std::vector<const SuiteProblem*> in_turn(std::span<const SuiteProblem> problems) {
  std::map<std::string_view, size_t> seen;
  std::vector<std::pair<size_t, const SuiteProblem*>> ranked;
  for (const SuiteProblem& item : problems) ranked.emplace_back(seen[item.regime]++, &item);
  std::sort(ranked.begin(), ranked.end());  // within a turn as they lie in memory: in the suite's order
  std::vector<const SuiteProblem*> order;
  for (const auto& [turn, item] : ranked) order.push_back(item);
  return order;
}

}  // namespace

// What is compiled here, several at a time, is loaded when a row binds it. Failures are told by their rows.
void GpuBench::compile_all(std::span<const SuiteProblem> problems) {
  std::vector<const NamedProblem*> wanted;
  for (const SuiteProblem& item : problems) {
    wanted.push_back(&item.problem);
    if (item.baseline) wanted.push_back(&*item.baseline);
  }
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < wanted.size(); i = next++) {
      const NamedProblem& problem = *wanted[i];
      const auto choices = context_.dispatcher().choices(*problem.op, problem.ref(), spec_, *context_.tables(),
                                                         options_.recipe, nullptr);
      if (choices) (void)own_plan(problem, *choices);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < std::min(cpu_info().cores, kMaxCompilers); ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

Status GpuBench::run(std::span<const SuiteProblem> problems, const std::function<Status()>& each) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  bar_.update({0, "compiling", ""});
  compile_all(problems);
  bar_.update({0, "limits of the device", ""});
  probe_.measure(options_.limit_seconds);
  std::vector<const SuiteProblem*> order;
  for (const SuiteProblem& item : problems) order.push_back(&item);
  if (options_.budget > 0) order = in_turn(problems);
  for (size_t i = 0; i < order.size(); ++i) {
    const SuiteProblem& item = *order[i];
    bar_.update({static_cast<double>(i) / static_cast<double>(problems.size()), item.problem.text(), item.regime});
    if (options_.budget > 0 && std::chrono::duration<double>(Clock::now() - start).count() > options_.budget) {
      skipped_.push_back({item.regime, item.problem.text(), "the time was spent"});
      continue;
    }
    Status measured = measure(item);
    // After a fault of a kernel nothing more can be measured in this process.
    if (measured.code() == StatusCode::kDeviceError) return measured;
    if (!measured.ok()) {
      skipped_.push_back({item.regime, item.problem.text(), measured.message()});
      if (measured.code() == StatusCode::kVerifyFailed) ++failures_;
    }
    if (Status s = each(); !s) return s;
  }
  bar_.finish();
  return {};
}

}  // namespace tilewright::cli
