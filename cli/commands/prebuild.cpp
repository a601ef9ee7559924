// SPDX-License-Identifier: MIT
// tilewright prebuild: compiles what will be needed into the code cache, on all cores.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "command.hpp"
#include "output/numbers.hpp"
#include "output/progress_bar.hpp"
#include "problems/model_layers.hpp"
#include "results/recipe_text.hpp"

namespace tilewright::cli {
namespace {

struct PrebuildOptions {
  ModelArguments models;
  ProblemArguments problems;
  int candidates = 1, jobs = 0;
  bool tuned = false;
  OutputOptions output;
};

struct Job {
  const KernelFamily* family = nullptr;
  KernelKey key;
  bool built = false;  // before this run
  Status status;
  double seconds = 0;
};

class Prebuild {
 public:
  explicit Prebuild(ContextImpl& context) : context_(context) {}

  // The first `candidates` choices for the problem; every choice when it is 0.
  Status add_problem(const NamedProblem& problem, int candidates) {
    Result<std::vector<Choice>> choices =
        context_.dispatcher().choices(*problem.op, problem.ref(), context_.spec(0), *context_.tables(), "", nullptr);
    if (!choices) return choices.status();
    for (size_t i = 0; i < choices->size() && (candidates == 0 || i < static_cast<size_t>(candidates)); ++i) {
      add_recipe(*problem.op, (*choices)[i].recipe);
    }
    return {};
  }

  // Every tuned row that runs on this device.
  void add_tuned_rows() {
    const DeviceSpec spec = context_.spec(0);
    for (const TunedRow* row : context_.tables()->rows()) {
      const Operator* op = context_.find_op(row->op);
      if (op == nullptr || row->part != spec.part || !runs_on(row->target, spec.arch->target)) continue;
      Result<Recipe> recipe = parse_recipe(op->families(), row->recipe);
      if (recipe) add_recipe(*op, *recipe);
    }
  }

  void build(int jobs) {
    std::vector<Job*> todo;
    for (auto& [text, job] : jobs_) {
      if (!job.built) todo.push_back(&job);
    }
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    size_t done = 0;
    ProgressBar bar;
    const auto start = std::chrono::steady_clock::now();
    auto seconds = [](auto since) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    };
    auto work = [&] {
      for (size_t i = next++; i < todo.size(); i = next++) {
        Job& job = *todo[i];
        const auto begun = std::chrono::steady_clock::now();
        job.status = context_.dispatcher().load(*job.family, job.key, /*allow_compile=*/true).status();
        job.seconds = seconds(begun);
        std::lock_guard lock(mutex);
        const double fraction = static_cast<double>(++done) / static_cast<double>(todo.size());
        bar.update({fraction, fmt::format("{} of {} kernels", done, todo.size()), short_recipe(job.key.text),
                    seconds_left(seconds(start), fraction)});
      }
    };
    const int cores = context_.spec(0).units;
    std::vector<std::thread> threads;
    for (int i = 1; i < std::min<int>(jobs > 0 ? jobs : cores, static_cast<int>(todo.size())); ++i)
      threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

  const std::map<std::string, Job>& jobs() const { return jobs_; }

 private:
  void add_recipe(const Operator& op, const Recipe& recipe) {
    for (const RecipeStep& step : recipe.steps) {
      for (const KernelFamily* family : op.families()) {
        if (family->name() != step.key.family || jobs_.contains(step.key.text)) continue;
        jobs_[step.key.text] = {family, step.key, context_.dispatcher().built(op, Recipe{{step}}), {}, 0};
      }
    }
  }

  ContextImpl& context_;
  std::map<std::string, Job> jobs_;  // by key text
};

Result<ExitCode> run_prebuild(const PrebuildOptions& options) {
  Result<std::vector<NamedProblem>> problems = parse_problems(options.problems);
  if (!problems) return problems.status();
  if (!options.models.empty()) {
    std::vector<std::string> notes;
    Result<std::vector<NamedProblem>> layers = model_problems(options.models, notes);
    if (!layers) return layers.status();
    for (const std::string& line : notes) note(line);
    problems->insert(problems->end(), layers->begin(), layers->end());
  }
  if (problems->empty() && !options.tuned) {
    return Status(StatusCode::kInvalidArgument,
                  "nothing to build: give --model NAME, --shapes FILE, --problem TEXT, --gemm MxNxK or --tuned");
  }
  Result<std::unique_ptr<ContextImpl>> context = open_context(0);
  if (!context) return context.status();
  Prebuild prebuild(**context);
  for (const NamedProblem& problem : *problems) {
    if (Status s = prebuild.add_problem(problem, options.candidates); !s) return s;
  }
  if (options.tuned) prebuild.add_tuned_rows();
  prebuild.build(options.jobs);

  Table table("kernels",
              {{"key", "kernel"}, {"state", "state"}, {"seconds", "seconds", Align::kRight}, {"error", "why"}});
  int compiled = 0, failed = 0, there = 0;
  Status first_failure;
  for (const auto& [text, job] : prebuild.jobs()) {
    const bool ok = job.status.ok();
    (job.built ? there : ok ? compiled : failed) += 1;
    if (!ok && first_failure.ok()) first_failure = job.status;
    table.add({text_cell(text),
               job.built ? text_cell("was built")
               : ok      ? text_cell("compiled", Tone::kGood)
                         : text_cell("failed", Tone::kBad),
               job.built ? absent() : number_cell(job.seconds, fmt::format("{:.2f}", job.seconds)),
               text_cell(ok ? "" : job.status.message().substr(0, job.status.message().find('\n')))});
  }
  Document document("prebuild");
  document.add(std::move(table));
  document.fact("compiled", int64_t{compiled},
                fmt::format("{} compiled, {} were built, {} failed", compiled, there, failed));
  document.fact("was_built", int64_t{there}, "");
  document.fact("failed", int64_t{failed}, "");
  document.print(options.output);
  // A compiler that is not there is the environment's fault, not a name that the user got wrong.
  if (first_failure.code() == StatusCode::kNotFound) return Status(StatusCode::kCompileFailed, first_failure.message());
  if (!first_failure.ok()) return first_failure;
  return ExitCode::kOk;
}

}  // namespace

void add_prebuild_command(CLI::App& program, Invocation& invocation) {
  add_command<PrebuildOptions>(
      program, invocation,
      {"prebuild", "Compile the kernels of a model into the code cache",
       "  tilewright prebuild --model llama-3.1-8b --tokens 1,16,128\n"
       "  tilewright prebuild --tuned                            every tuned row of this device\n"
       "  tilewright prebuild --gemm 16x4096x4096:bf16 --candidates 0    every candidate"},
      [](Arguments& arguments, PrebuildOptions& options) {
        add_model_arguments(arguments, options.models);
        add_problem_arguments(arguments, options.problems);
        arguments.flag("--tuned", options.tuned, "what tuned rows of this device name");
        arguments.integer("--candidates", options.candidates, 0, 100000,
                          "the best so many choices of each problem (1); 0 = all");
        arguments.integer("--jobs", options.jobs, 0, 1024, "compilers at a time; 0 = one a core");
        add_output_arguments(arguments, options.output);
      },
      run_prebuild);
}

}  // namespace tilewright::cli
